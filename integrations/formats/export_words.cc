#include "integrations/formats/export_words.h"

#include <algorithm>

namespace tidemark::formats {
namespace {

template <class Body>
void for_each_chunk(const graph_build::JobSpec& job, std::int32_t rank, std::int32_t chunk, const Body& body) {
  const auto& slots = job.parallel.slots;
  for (std::size_t r = 0; r < slots.size(); ++r)
    for (std::size_t c = 0; c < slots[r].size(); ++c)
      if ((rank < 0 || static_cast<std::size_t>(rank) == r) && (chunk < 0 || static_cast<std::size_t>(chunk) == c))
        body(slots[r][c]);
}

bool share_storage(const ExportWord& a, const ExportWord& b) {
  return std::ranges::any_of(
      a.storages, [&](const std::string& s) { return std::ranges::find(b.storages, s) != b.storages.end(); });
}

}  // namespace

WordList::WordList(ExportVocabulary& vocabulary, const PlanFile& plan) : vocabulary_(vocabulary), plan_(plan) {}

bool WordList::has(std::string_view storage) const {
  return std::ranges::any_of(plan_.ranks, [&](const PlanFile::Rank& rank) {
    return std::ranges::any_of(rank.outline.storage_templates, [&](const GraphOutline::StorageName& s) {
      return s.module_path + "." + s.name == storage;
    });
  });
}

std::vector<std::int32_t> WordList::first_layers(std::int32_t count, std::int32_t rank, std::int32_t chunk) const {
  std::vector<std::int32_t> layers;
  for_each_chunk(plan_.job, rank, chunk, [&](const std::vector<graph_build::Slot>& slots) {
    std::int32_t left = count;
    for (const graph_build::Slot& slot : slots)
      if (slot.kind == graph_build::Slot::Kind::layer && left-- > 0) layers.push_back(slot.layer);
  });
  std::ranges::sort(layers);
  return layers;
}

std::int32_t WordList::most_layers(std::int32_t rank, std::int32_t chunk) const {
  std::int32_t most = 0;
  for_each_chunk(plan_.job, rank, chunk, [&](const std::vector<graph_build::Slot>& slots) {
    const auto count = std::ranges::count(slots, graph_build::Slot::Kind::layer, &graph_build::Slot::kind);
    most = std::max(most, static_cast<std::int32_t>(count));
  });
  return most;
}

std::int32_t WordList::push(ExportWord word, search::Setting setting) {
  vocabulary_.words.push_back(std::move(word));
  vocabulary_.settings.push_back(std::move(setting));
  return static_cast<std::int32_t>(vocabulary_.words.size()) - 1;
}

std::int32_t WordList::add(std::string_view option, std::string_view value, Action action,
                           std::initializer_list<const char*> storages, std::string_view source, WordPlace place) {
  ExportWord word{.option = std::string(option),
                  .value = std::string(value),
                  .action = action,
                  .storages = {},
                  .source = std::string(source)};
  for (const char* storage : storages)
    if (has(storage)) word.storages.emplace_back(storage);
  if (word.storages.empty()) return -1;
  search::Setting setting{.rules = {{}}};
  const std::int32_t most = place.counted ? most_layers(-1, -1) : 1;
  for (std::int32_t count = 1; count <= most; ++count) {
    std::vector<search::PlacedAction>& rules = setting.rules.emplace_back();
    const bool everywhere = !place.counted || count == most;
    for (const std::string& storage : word.storages)
      rules.push_back(
          {.storage = storage, .action = action, .layers = everywhere ? place.layers : first_layers(count, -1, -1)});
  }
  return push(std::move(word), std::move(setting));
}

std::int32_t WordList::add_layers(std::string_view option, std::string_view source) {
  search::Setting setting{.rules = {{}}};
  for (std::int32_t count = 1; count <= most_layers(-1, -1); ++count)
    setting.rules.push_back({{.action = Action::recompute, .layers = first_layers(count, -1, -1)}});
  return push(
      {.option = std::string(option), .action = Action::recompute, .storages = {}, .source = std::string(source)},
      std::move(setting));
}

void WordList::add_stage(std::string_view option, std::string_view value, std::initializer_list<const char*> storages,
                         std::string_view source, std::int32_t rank, std::int32_t chunk) {
  const std::int32_t most = most_layers(rank, chunk);
  const std::vector<std::int32_t> all = first_layers(most, rank, chunk);
  const auto is_dense = [&](std::int32_t layer) {
    return plan_.job.model.layers[static_cast<std::size_t>(layer)] == graph_build::LayerKind::dense;
  };
  if (most == 0 || (storages.size() > 0 && std::ranges::none_of(all, is_dense))) return;
  ExportWord word{.option = std::string(option),
                  .value = std::string(value),
                  .action = Action::recompute,
                  .storages = {storages.begin(), storages.end()},
                  .rank = rank,
                  .chunk = chunk,
                  .source = std::string(source)};
  search::Setting setting{.rules = {{}}, .rank = rank};
  for (std::int32_t count = 1; count <= most; ++count) {
    std::vector<search::PlacedAction>& rules = setting.rules.emplace_back();
    const std::vector<std::int32_t> layers = first_layers(count, rank, chunk);
    if (word.storages.empty()) rules.push_back({.action = Action::recompute, .layers = layers});
    for (const std::string& storage : word.storages)
      rules.push_back({.storage = storage, .action = Action::recompute, .layers = layers});
  }
  push(std::move(word), std::move(setting));
}

void WordList::needs(std::int32_t word, std::int32_t other) {
  if (word >= 0 && other >= 0) vocabulary_.settings[static_cast<std::size_t>(word)].needs.push_back(other);
}

void WordList::exclude(std::int32_t word, std::int32_t other) {
  if (word < 0 || other < 0) return;
  for (const auto& [a, b] : {std::pair(word, other), std::pair(other, word)}) {
    std::vector<std::int32_t>& list = vocabulary_.settings[static_cast<std::size_t>(a)].excludes;
    if (std::ranges::find(list, b) == list.end()) list.push_back(b);
  }
}

void WordList::exclude_overlaps(bool layers_alone) {
  const std::vector<ExportWord>& words = vocabulary_.words;
  for (std::size_t a = 0; a < words.size(); ++a)
    for (std::size_t b = a + 1; b < words.size(); ++b) {
      const bool layers = layers_alone && (words[a].storages.empty() || words[b].storages.empty());
      if (layers || share_storage(words[a], words[b]))
        exclude(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b));
    }
}

}  // namespace tidemark::formats
