#include "planner/site_rooms.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "core/dynamic_region.h"

namespace tidemark::plan {
namespace {

constexpr double kRowTolerance = 1e-9;  ///< of storage_bytes

/// Whole rows of what fits the slot, as a load.
double room_of(const RoutedResidency& routed, Bytes slot) {
  if (routed.rows <= 0 || routed.row_bytes <= 0) return std::numeric_limits<double>::infinity();
  const std::int64_t rows = (slot - routed.fixed_bytes) / routed.row_bytes;
  return (static_cast<double>(rows) + kRowTolerance) / static_cast<double>(routed.rows);
}

}  // namespace

std::vector<SiteRoom> site_rooms(const RankPlan& plan) {
  std::map<SiteId, double> loads;
  for (const RoutedResidency& routed : plan.program.routed) {
    if (routed.rows_of != RowsOf::received) continue;
    const double load = room_of(routed, plan.program.schedule.residencies[row(routed.residency)].bytes);
    double& room = loads.try_emplace(routed.site, load).first->second;
    room = std::min(room, load);
  }
  std::vector<SiteRoom> rooms;
  for (const auto& [id, load] : loads) {
    const Site& site = plan.graph.sites[row(id)];
    rooms.push_back({.layer = site.layer, .micro_batch = site.micro_batch, .load = load});
  }
  return rooms;
}

std::vector<LayerRoom> layer_rooms(std::span<const SiteRoom> rooms) {
  std::map<std::pair<std::int32_t, double>, std::int64_t> counts;
  for (const SiteRoom& room : rooms) ++counts[{room.layer, room.load}];
  std::vector<LayerRoom> layers;
  for (const auto& [key, sites] : counts) layers.push_back({.layer = key.first, .load = key.second, .sites = sites});
  return layers;
}

}  // namespace tidemark::plan
