#include "integrations/formats/export_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "integrations/formats/export_words.h"

namespace tidemark::formats {
namespace {

/// Micro-batches by what happens to a storage.
struct Moves {
  std::int64_t instances = 0, recomputed = 0, swapped = 0, offloaded = 0;
  [[nodiscard]] std::int64_t moved() const { return recomputed + swapped; }
};

/// By module path and name; `order` as first met.
struct MoveTable {
  std::vector<std::string> order;
  std::map<std::string, Moves> moves;

  Moves& of(const std::string& storage) {
    const auto [found, is_new] = moves.try_emplace(storage);
    if (is_new) order.push_back(storage);
    return found->second;
  }
};

std::int64_t count(const Decisions& decisions, const GapKey& key, Action action, std::int64_t micro_batches) {
  const Decision* decision = decisions.find(key);
  if (decision == nullptr) return 0;
  std::int64_t times = decision->action == action ? micro_batches : 0;
  for (const Decision::Exception& exception : decision->exceptions) {
    if (decision->action == action) --times;
    if (exception.action == action) ++times;
  }
  return times;
}

/// Adds what one storage of one (block, chunk, layer) does.
void add_moves(const Decisions& decisions, const std::vector<GapKey>& keys, std::int64_t micro_batches, Moves& moves) {
  moves.instances += micro_batches;
  for (const GapKey& key : keys) {
    moves.recomputed += count(decisions, key, Action::recompute, micro_batches);
    (key.gap < 0 ? moves.offloaded : moves.swapped) += count(decisions, key, Action::swap, micro_batches);
  }
}

/// Adds one rank: every activation of every (block, chunk, layer), and the optimizer's state.
void add_rank(const GraphOutline& outline, const Decisions& decisions, MoveTable& table) {
  std::map<std::tuple<std::size_t, std::int32_t, std::int32_t>, std::int64_t> classes;
  for (const Site& site : outline.sites) ++classes[{row(site.block), site.chunk, site.layer}];
  std::map<std::tuple<StorageTemplateId, std::int32_t, std::int32_t>, std::vector<GapKey>> gaps;
  for (const Decision& d : decisions.rows) gaps[{d.key.storage_template, d.key.chunk, d.key.layer}].push_back(d.key);
  for (const auto& [place, micro_batches] : classes) {
    const auto& [block, chunk, layer] = place;
    const GraphOutline::BlockRange& range = outline.blocks[block];
    for (std::int32_t i = 0; i < range.storage_count; ++i) {
      const auto index = static_cast<std::size_t>(range.first_storage_template + i);
      const GraphOutline::StorageName& storage = outline.storage_templates[index];
      if (storage.role != StorageRole::activation && storage.role != StorageRole::optimizer_state) continue;
      add_moves(decisions, gaps[{id_of<StorageTemplateId>(index), chunk, layer}], micro_batches,
                table.of(storage.module_path + "." + storage.name));
    }
  }
}

MoveTable moves_of(const PlanFile& plan) {
  MoveTable table;
  for (const PlanFile::Rank& rank : plan.ranks) add_rank(rank.outline, rank.decisions, table);
  return table;
}

/// At least half of the instances of a word's storages move in the plan.
bool is_mostly_moved(const ExportWord& word, MoveTable& table) {
  std::int64_t instances = 0, moved = 0;
  for (const std::string& storage : word.storages) {
    const Moves& moves = table.of(storage);
    instances += moves.instances;
    moved += moves.moved();
  }
  return instances > 0 && 2 * moved >= instances;
}

/// As much as goes together; whole layers first or last.
search::SettingValues everything(const ExportVocabulary& vocabulary, bool layers_first) {
  search::SettingValues values(vocabulary.words.size(), 0);
  for (const bool layers : {layers_first, !layers_first})
    for (std::size_t w = 0; w < values.size(); ++w) {
      if (vocabulary.words[w].storages.empty() != layers) continue;
      search::SettingValues tried = values;
      tried[w] = vocabulary.settings[w].most();
      if (search::are_consistent(vocabulary.settings, tried)) values = std::move(tried);
    }
  return values;
}

/// The loads of a plan are those of its capacity.
std::string capacity_lines(const graph_build::MoeSpec& moe) {
  if (!moe.drops() || moe.capacity_level != graph_build::MoeSpec::CapacityLevel::expert) return "";
  return fmt::format("--moe-expert-capacity-factor {}\n{}", moe.capacity_factor,
                     moe.pad_to_capacity ? "--moe-pad-expert-input-to-capacity\n" : "");
}

void add_capacity_remark(const graph_build::MoeSpec& moe, ExportVocabulary& vocabulary) {
  if (!moe.drops()) return;
  if (moe.capacity_level == graph_build::MoeSpec::CapacityLevel::device)
    vocabulary.remarks.push_back(
        fmt::format("the plan drops what exceeds {} times the mean of a device, which no argument says: without, loads "
                    "may be higher",
                    moe.capacity_factor));
  else if (vocabulary.framework == Framework::mindformers)
    vocabulary.remarks.push_back(
        fmt::format("the plan is for moe_config.capacity_factor: {}, without use_gmm", moe.capacity_factor));
}

}  // namespace

ExportVocabulary vocabulary_of(Framework framework, const PlanFile& plan) {
  ExportVocabulary vocabulary{.framework = framework, .words = {}, .settings = {}, .remarks = {}};
  switch (framework) {
    case Framework::megatron:
      add_megatron_words(vocabulary, plan);
      break;
    case Framework::mindspeed:
      add_mindspeed_words(vocabulary, plan);
      break;
    case Framework::mindformers:
      add_mindformers_words(vocabulary, plan);
      break;
  }
  add_capacity_remark(plan.job.model.moe, vocabulary);
  return vocabulary;
}

std::vector<search::SettingValues> starts_of(const ExportVocabulary& vocabulary, const PlanFile& plan) {
  MoveTable table = moves_of(plan);
  const search::SettingValues nothing(vocabulary.words.size(), 0);
  search::SettingValues like_plan = nothing;
  for (std::size_t w = 0; w < like_plan.size(); ++w) {
    if (vocabulary.words[w].storages.empty() || !is_mostly_moved(vocabulary.words[w], table)) continue;
    search::SettingValues tried = like_plan;
    tried[w] = vocabulary.settings[w].most();
    if (search::are_consistent(vocabulary.settings, tried)) like_plan = std::move(tried);
  }
  return {like_plan, nothing, everything(vocabulary, false), everything(vocabulary, true)};
}

std::string argument_lines(const ExportVocabulary& vocabulary, const search::SettingValues& values,
                           const PlanFile& plan) {
  std::map<std::string, std::vector<std::string>> lists;
  std::string flags;
  bool layers = false;
  for (std::size_t w = 0; w < values.size(); ++w) {
    const ExportWord& word = vocabulary.words[w];
    if (values[w] == 0) continue;
    if (word.option.ends_with("-modules")) {
      lists[word.option].push_back(word.value);
      continue;
    }
    if (word.storages.empty()) {
      layers = true;
      flags += fmt::format("--recompute-granularity full\n--recompute-method block\n{} {}\n", word.option, values[w]);
      continue;
    }
    flags += word.option + (word.value.empty() ? "" : " " + word.value) + "\n";
    if (values[w] < vocabulary.settings[w].most()) flags += fmt::format("{}-num-layers {}\n", word.option, values[w]);
    if (word.option == "--recompute-mla-up-proj" && plan.job.parallel.tensor > 1) flags += "--mla-up-proj-tp-overlap\n";
    if (word.option.starts_with("--moe-"))
      flags += plan.job.parallel.overlap_forward_backward ? "--moe-fb-overlap\n" : "--moe-alltoall-overlap-comm\n";
  }
  if (const auto modules = lists.find("--recompute-modules"); modules != lists.end() && !layers)
    flags +=
        fmt::format("--recompute-granularity selective\n--recompute-modules {}\n", fmt::join(modules->second, " "));
  if (const auto modules = lists.find("--offload-modules"); modules != lists.end())
    flags +=
        fmt::format("--fine-grained-activation-offloading\n--offload-modules {}\n", fmt::join(modules->second, " "));
  return flags;
}

std::string settings_text(const ExportVocabulary& vocabulary, const search::SettingValues& values,
                          const PlanFile& plan) {
  if (vocabulary.framework == Framework::mindformers) return mindformers_yaml(vocabulary, values, plan);
  std::string lines = argument_lines(vocabulary, values, plan) + capacity_lines(plan.job.model.moe);
  // The same switch may be needed by two words.
  std::string text;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin) + 1;
    const std::string line = lines.substr(begin, end - begin);
    if (!text.starts_with(line) && text.find("\n" + line) == std::string::npos) text += line;
    begin = end;
  }
  return text.empty() ? "# nothing to set: everything is kept\n" : text;
}

std::vector<ExportDifference> differences(const PlanFile& plan, const plan::PlanOutcome& outcome) {
  MoveTable before = moves_of(plan);
  MoveTable after;
  for (const plan::RankPlan& rank : outcome.ranks) add_rank(outline_of(rank.graph), rank.decisions, after);
  std::vector<ExportDifference> list;
  for (const std::string& storage : before.order) {
    const Moves& was = before.of(storage);
    const Moves& is = after.of(storage);
    if (was.recomputed == is.recomputed && was.swapped == is.swapped && was.offloaded == is.offloaded) continue;
    list.push_back({.storage = storage,
                    .instances = was.instances,
                    .plan_recomputed = was.recomputed,
                    .plan_swapped = was.swapped,
                    .plan_offloaded = was.offloaded,
                    .settings_recomputed = is.recomputed,
                    .settings_swapped = is.swapped});
  }
  return list;
}

}  // namespace tidemark::formats
