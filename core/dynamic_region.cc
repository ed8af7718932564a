#include "core/dynamic_region.h"

#include <algorithm>
#include <cmath>

#include "core/dispatch_section.h"

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

std::vector<std::int64_t> dynamic_demand(const Program& program, double load, Bytes granule) {
  const Schedule& schedule = program.schedule;
  const std::vector<std::int32_t> clock = compute_clock(schedule);
  std::vector<std::int64_t> demand(static_cast<std::size_t>(schedule.compute_tasks) * 2 + 2, 0);
  const auto add = [&](std::int32_t from, std::int32_t until, std::int64_t granules) {
    demand[static_cast<std::size_t>(from)] += granules;
    demand[static_cast<std::size_t>(until)] -= granules;
  };
  const std::vector<std::int32_t> from = in_use_from(program);
  std::vector<std::int64_t> extra(schedule.residencies.size(), 0);
  for (const RoutedResidency& routed : program.routed) {
    const Residency& r = schedule.residencies[row(routed.residency)];
    extra[row(routed.residency)] =
        extra_granules(program.layout.offset_of[row(routed.residency)], r.bytes, routed_bytes(routed, load), granule);
    add(from[row(routed.residency)], r.release, extra[row(routed.residency)]);
  }
  for (const Contingency& c : program.contingencies) {
    const Residency& r = schedule.residencies[row(c.residency)];
    const std::int64_t kept =
        std::min(extra[row(c.residency)],
                 extra_granules(program.layout.offset_of[row(c.residency)], r.bytes, c.trigger_bytes, granule));
    add(2 * clock[row(c.release_at)], 2 * clock[row(c.prefetch_at)] + 1, kept - extra[row(c.residency)]);
  }
  for (std::size_t t = 1; t < demand.size(); ++t) demand[t] += demand[t - 1];
  demand.pop_back();
  return demand;
}

}  // namespace tidemark
