#pragma once
// Up to which load the slots of a plan hold what its sites receive. A site's *room* is the largest load f at which all
// of its storages of rows received fit their slots; above it rung `room` of the runtime comes in (swap/load_ladder.h).

#include <cstdint>
#include <span>
#include <vector>

#include "planner/planner.h"

namespace tidemark::plan {

/// The room of a site; layer and micro-batch as Site has them.
struct SiteRoom {
  std::int32_t layer = 0;
  std::int32_t micro_batch = 0;
  double load = 0;
  friend bool operator==(const SiteRoom&, const SiteRoom&) = default;
};

/// Sites of a rank that have the same room, in one layer.
struct LayerRoom {
  std::int32_t layer = 0;
  double load = 0;  ///< the room
  std::int64_t sites = 0;
  friend bool operator==(const LayerRoom&, const LayerRoom&) = default;
};

/// Of every site with routed storages, ascending site. Exact: load f exceeds it if and only if some storage of rows
/// received is larger than its slot at f (routed_bytes in core/dynamic_region.h).
[[nodiscard]] std::vector<SiteRoom> site_rooms(const RankPlan& plan);
/// Ascending layer and load.
[[nodiscard]] std::vector<LayerRoom> layer_rooms(std::span<const SiteRoom> rooms);

}  // namespace tidemark::plan
