#include "integrations/formats/named_decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

namespace tidemark::formats {
namespace {

const GraphOutline::BlockRange* block_of(const GraphOutline& outline, std::size_t storage_template) {
  for (const GraphOutline::BlockRange& block : outline.blocks) {
    const auto first = static_cast<std::size_t>(block.first_storage_template);
    if (first <= storage_template && storage_template < first + static_cast<std::size_t>(block.storage_count))
      return &block;
  }
  return nullptr;
}

/// Micro-batches of a block in one chunk and layer.
std::int32_t count_sites(const GraphOutline& outline, const GraphOutline::BlockRange* block, const GapKey& key) {
  return static_cast<std::int32_t>(std::ranges::count_if(outline.sites, [&](const Site& site) {
    return block == &outline.blocks[row(site.block)] && site.chunk == key.chunk && site.layer == key.layer;
  }));
}

/// Planned bytes of one instance by (template, chunk, layer).
using Sizes = std::map<std::tuple<std::size_t, std::int32_t, std::int32_t>, Bytes>;

Sizes sizes_of(const PlanFile::Rank& rank) {
  Sizes sizes;
  for (const Residency& residency : rank.program.schedule.residencies) {
    const Site& site = rank.outline.site_of(residency.storage);
    const auto* const first = rank.outline.storage_templates.data();
    const auto index = static_cast<std::size_t>(&rank.outline.template_of(residency.storage) - first);
    sizes.try_emplace({index, site.chunk, site.layer}, residency.bytes);
  }
  return sizes;
}

void count(NamedDecision& named, Action action, std::int32_t times) {
  switch (action) {
    case Action::keep:
      named.kept += times;
      break;
    case Action::recompute:
      named.recomputed += times;
      break;
    case Action::swap:
      named.swapped += times;
      break;
  }
}

}  // namespace

std::vector<NamedDecision> named_decisions(const PlanFile::Rank& rank) {
  const GraphOutline& outline = rank.outline;
  const Sizes sizes = sizes_of(rank);
  std::vector<NamedDecision> list;
  for (const Decision& decision : rank.decisions.rows) {
    const GapKey& key = decision.key;
    const std::size_t index = row(key.storage_template);
    const GraphOutline::StorageName& storage = outline.storage_templates[index];
    const GraphOutline::BlockRange* block = block_of(outline, index);
    NamedDecision named{
        .rank = rank.program.schedule.rank,
        .storage = storage.module_path.empty() ? storage.name : storage.module_path + "." + storage.name,
        .chunk = key.chunk,
        .layer = key.layer,
        .block = block == nullptr ? "" : block->name,
        .gap = key.gap};
    count(named, decision.action,
          count_sites(outline, block, key) - static_cast<std::int32_t>(decision.exceptions.size()));
    for (const Decision::Exception& exception : decision.exceptions) count(named, exception.action, 1);
    if (named.recomputed > 0 && decision.recipe != kNone<RecipeId>)
      named.recipe = outline.recipes[row(decision.recipe)];
    const auto size = sizes.find({index, key.chunk, key.layer});
    if (size != sizes.end()) named.instance_bytes = size->second;
    if (named.moved() > 0) list.push_back(std::move(named));
  }
  return list;
}

std::string place_text(const NamedDecision& decision) {
  if (decision.layer < 0) return fmt::format("{} chunk {}", decision.block, decision.chunk);
  return fmt::format("layer {} chunk {}", decision.layer, decision.chunk);
}

std::string action_text(const NamedDecision& decision) {
  std::string text;
  const auto add = [&](std::string_view verb, std::int32_t times) {
    if (times != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", verb, times);
  };
  add("recompute", decision.recomputed);
  add("swap", decision.swapped);
  add("keep", decision.kept);
  return text;
}

}  // namespace tidemark::formats
