// MindFormers (MindSpore, static graph): recompute_config with lists of layer counts per stage, for interleaved
// pipelines one list per chunk; docs/mindformers/docs/source_en/feature/memory_optimization.md of mindspore-ai/docs.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "integrations/formats/export_words.h"

namespace tidemark::formats {
namespace {

constexpr const char* kSource = "docs/mindformers/docs/source_en/feature/memory_optimization.md";

/// Layer counts by [chunk][stage].
using Counts = std::vector<std::vector<std::int32_t>>;

std::string yaml_list(const Counts& counts) {
  if (counts.size() == 1) return fmt::format("[{}]", fmt::join(counts.front(), ", "));
  std::vector<std::string> lists;
  for (const auto& chunk : counts) lists.push_back(fmt::format("[{}]", fmt::join(chunk, ", ")));
  return fmt::format("[{}]", fmt::join(lists, ", "));
}

}  // namespace

void add_mindformers_words(ExportVocabulary& vocabulary, const PlanFile& plan) {
  WordList words(vocabulary, plan);
  for (const PlanFile::Rank& rank : plan.ranks)
    for (std::int32_t chunk = 0; chunk < plan.job.parallel.virtual_pipeline; ++chunk) {
      words.add_stage("recompute", "", {}, kSource, rank.figures.rank, chunk);
      if (words.has("mlp.act_out"))
        words.add_stage("select_recompute", "feed_forward\\.mul", {"mlp.act_out"}, kSource, rank.figures.rank, chunk);
    }
  vocabulary.remarks = {
      "layers are counted from the first of each stage and chunk, the same for every micro-batch",
      "select_recompute names operators by pattern: feed_forward\\.mul, the one documented for every model, is used; "
      "check its name in yours",
      "swap_config is not written: it is documented for dense Llama models alone, needs memory_optimize_level O0, and "
      "turns the lists of recompute_config into lists of layers",
      "mp_comm_recompute: True runs the collectives of recomputed layers again, as the evaluation does"};
}

std::string mindformers_yaml(const ExportVocabulary& vocabulary, const search::SettingValues& values,
                             const PlanFile& plan) {
  const graph_build::ParallelSpec& parallel = plan.job.parallel;
  const Counts none(static_cast<std::size_t>(parallel.virtual_pipeline),
                    std::vector<std::int32_t>(static_cast<std::size_t>(parallel.pipeline), 0));
  Counts layers = none;
  std::map<std::string, Counts> selected;
  bool any = false;
  for (std::size_t w = 0; w < values.size(); ++w) {
    const ExportWord& word = vocabulary.words[w];
    if (values[w] == 0) continue;
    Counts& counts = word.value.empty() ? layers : selected.try_emplace(word.value, none).first->second;
    counts[static_cast<std::size_t>(word.chunk)][static_cast<std::size_t>(word.rank)] = values[w];
    any = any || word.value.empty();
  }
  std::string text = "recompute_config:\n";
  text += fmt::format("  recompute: {}\n", any ? yaml_list(layers) : "False");
  if (selected.empty()) text += "  select_recompute: False\n";
  if (!selected.empty()) text += "  select_recompute:\n";
  for (const auto& [pattern, counts] : selected) text += fmt::format("    '{}': {}\n", pattern, yaml_list(counts));
  return text + "  parallel_optimizer_comm_recompute: False\n  mp_comm_recompute: True\n";
}

}  // namespace tidemark::formats
