#include "integrations/formats/address_columns.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "integrations/formats/packed_column.h"
#include "planner/held_span.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;
using Column = std::vector<std::int64_t>;

/// Rows of the residencies to draw, by the position they begin at.
std::vector<std::size_t> drawn_residencies(const Schedule& schedule) {
  std::vector<std::size_t> drawn;
  for (std::size_t r = 0; r < schedule.residencies.size(); ++r) {
    const plan::HeldSpan span = plan::held_span(schedule.residencies[r], schedule.compute_tasks);
    if (schedule.residencies[r].space == MemorySpace::device && span.begin < span.end) drawn.push_back(r);
  }
  std::ranges::stable_sort(
      drawn, {}, [&](std::size_t r) { return plan::held_span(schedule.residencies[r], schedule.compute_tasks).begin; });
  return drawn;
}

/// Where each arena begins in the picture: device arenas stand on one another.
std::vector<Bytes> bases_of(const std::vector<Arena>& arenas) {
  std::vector<Bytes> bases;
  Bytes top = 0;
  for (const Arena& arena : arenas) {
    bases.push_back(top);
    if (arena.space == MemorySpace::device) top += arena.height_bytes;
  }
  return bases;
}

Json arenas_json(const std::vector<Arena>& arenas, const std::vector<Bytes>& bases) {
  Json json = Json::array();
  for (std::size_t a = 0; a < arenas.size(); ++a) {
    if (arenas[a].space != MemorySpace::device) continue;
    json.push_back({{"base", bases[a]}, {"height", arenas[a].height_bytes}, {"capacity", arenas[a].capacity_bytes}});
  }
  return json;
}

Json peak_json(const plan::RankPlan& rank) {
  const plan::MemoryProfile profile = plan::memory_profile(rank.graph, rank.program.schedule);
  std::int32_t clock = 0;
  Bytes most = 0;
  for (std::size_t i = 0; i < profile.clock.size(); ++i) {
    const Bytes sum = std::accumulate(profile.bytes[i].begin(), profile.bytes[i].end(), Bytes{0});
    if (sum <= most) continue;
    most = sum;
    clock = profile.clock[i];
  }
  return {{"clock", clock}, {"bytes", most}};
}

}  // namespace

Json address_columns(const plan::RankPlan& rank) {
  const Schedule& schedule = rank.program.schedule;
  const Layout& layout = rank.program.layout;
  if (schedule.residencies.empty() || layout.offset_of.size() != schedule.residencies.size()) return nullptr;
  const std::vector<Bytes> bases = bases_of(layout.arenas);
  Column from, span, bytes, at, what, site;
  for (const std::size_t r : drawn_residencies(schedule)) {
    const Residency& residency = schedule.residencies[r];
    const Storage& storage = rank.graph.storages[row(residency.storage)];
    const plan::HeldSpan held = plan::held_span(residency, schedule.compute_tasks);
    from.push_back(held.begin);
    span.push_back(held.end - held.begin);
    bytes.push_back(residency.bytes);
    at.push_back(bases[row(layout.arena_of[r])] + layout.offset_of[r]);
    what.push_back(static_cast<std::int64_t>(storage.storage_template));
    site.push_back(static_cast<std::int64_t>(storage.site));
  }
  return {{"arenas", arenas_json(layout.arenas, bases)},
          {"peak", peak_json(rank)},
          {"count", from.size()},
          {"from", packed_column(from, Packing::delta)},
          {"span", packed_column(span, Packing::plain)},
          {"bytes", packed_column(bytes, Packing::plain)},
          {"at", packed_column(at, Packing::delta)},
          {"what", packed_column(what, Packing::plain)},
          {"site", packed_column(site, Packing::delta)}};
}

}  // namespace tidemark::formats
