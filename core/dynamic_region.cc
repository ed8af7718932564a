#include "core/dynamic_region.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

Bytes routed_bytes(const RoutedResidency& routed, const SiteLoad& load) {
  return storage_bytes({.fixed_bytes = routed.fixed_bytes,
                        .routed_rows = routed.rows,
                        .routed_row_bytes = routed.row_bytes,
                        .rows_of = routed.rows_of},
                       load);
}

std::vector<SiteLoad> planned_loads(const Program& program) {
  constexpr double kNoSlot = std::numeric_limits<double>::infinity();
  std::vector<SiteLoad> loads;
  for (const RoutedResidency& routed : program.routed) {
    if (row(routed.site) >= loads.size()) loads.resize(row(routed.site) + 1, {kNoSlot, kNoSlot});
    const Bytes bytes = program.schedule.residencies[row(routed.residency)].bytes - routed.fixed_bytes;
    const double mean = static_cast<double>(routed.rows) * static_cast<double>(routed.row_bytes);
    if (mean <= 0) continue;
    SiteLoad& site = loads[row(routed.site)];
    double& load = routed.rows_of == RowsOf::received ? site.received : site.sent;
    load = std::min(load, static_cast<double>(bytes) / mean);
  }
  for (SiteLoad& load : loads) {
    if (load.received == kNoSlot) load.received = 1;
    if (load.sent == kNoSlot) load.sent = 1;
  }
  return loads;
}

bool slots_hold(std::span<const SiteLoad> planned, SiteId site, const SiteLoad& load) {
  return row(site) < planned.size() && planned[row(site)].covers(load);
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
