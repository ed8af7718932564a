#include "core/dynamic_region.h"

#include <algorithm>
#include <cmath>

namespace tidemark {

GranuleRange granules_inside(Bytes offset, Bytes bytes, Bytes granule) {
  const std::int64_t first = (offset + granule - 1) / granule;
  const std::int64_t end = (offset + bytes) / granule;
  return {.first = first, .count = std::max<std::int64_t>(0, end - first)};
}

GranuleRange dynamic_region(const Arena& arena, Bytes granule) {
  return granules_inside(arena.height_bytes, arena.dynamic_bytes, granule);
}

std::int64_t extra_granules(Bytes offset, Bytes planned_bytes, Bytes actual_bytes, Bytes granule) {
  if (actual_bytes <= planned_bytes) return 0;
  return (actual_bytes + granule - 1) / granule - granules_inside(offset, planned_bytes, granule).count;
}

Bytes routed_bytes(const RoutedResidency& routed, double load) {
  return storage_bytes(
      {.fixed_bytes = routed.fixed_bytes, .routed_rows = routed.rows, .routed_row_bytes = routed.row_bytes}, load);
}

std::vector<std::int32_t> compute_clock(const Schedule& schedule) {
  std::vector<std::int32_t> clock(schedule.tasks.size());
  std::int32_t before = 0;
  for (std::size_t t = 0; t < clock.size(); ++t) {
    clock[t] = before;
    if (schedule.tasks[t].lane == Lane::compute) ++before;
  }
  return clock;
}

}  // namespace tidemark
