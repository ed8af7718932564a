#pragma once
// Where a routed storage stands whose rows are not as many as planned, written once for planner and runtime.
//
// The device arena is mapped memory in granules, and granules are permanent and interchangeable: only addresses change.
// A residency whose actual bytes exceed its planned bytes is *oversized*. It then stands in a fresh window of addresses
// made of the whole granules inside its own slot [offset, offset + planned bytes) and of as many others as are missing,
// its *extra*; the rest of its slot, granules it shares with neighbours, stays unused. The others are
//
//   height_bytes                       capacity
//   |  rounded up to a granule         |
//   .  v[ 0 ][ 1 ][ 2 ] ... [ n-1 ]    .      of the dynamic region: whole granules of
//                                             [height_bytes, height_bytes + dynamic_bytes), free all step;
//
// those that stand empty by the plan from one half-step of the compute clock to another, and those that a slot lends
// while its own storage is smaller than planned (swap/granule_pool.h). Granules are taken in the order of the clock by
// who is done with them before they are wanted, so nothing fragments. To take them in that order the runtime takes at
// issue of the first touch, those of a section where it begins, and lets a first touch off the compute lane wait for
// the compute task issued before that.
//
// What finds no room runs in chunks (core/row_sections.h).

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/layout.h"
#include "core/program.h"

namespace tidemark {

/// The granule that plans count on: that of virtual memory management on the devices known.
inline constexpr Bytes kPlanGranule = 2 * kMiB;

/// Granules of an arena by number: granule n is [n * granule, (n + 1) * granule) from the arena's base.
struct GranuleRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend auto operator<=>(const GranuleRange&, const GranuleRange&) = default;
};

/// The whole granules inside [offset, offset + bytes).
[[nodiscard]] GranuleRange granules_inside(Bytes offset, Bytes bytes, Bytes granule);

/// The whole granules of the arena's dynamic region.
[[nodiscard]] GranuleRange dynamic_region(const Arena& arena, Bytes granule);

/// Granules of the dynamic region that a residency takes; 0 if actual_bytes <= planned_bytes.
[[nodiscard]] std::int64_t extra_granules(Bytes offset, Bytes planned_bytes, Bytes actual_bytes, Bytes granule);

/// What a routed storage takes at a load; the same as storage_bytes of its template.
[[nodiscard]] Bytes routed_bytes(const RoutedResidency& routed, const SiteLoad& load);

/// The loads up to which all planned slots of a site do, by site; 1 where nothing is routed.
[[nodiscard]] std::vector<SiteLoad> planned_loads(const Program& program);
/// By these, whether the slots of a site do for a load: its sections then run whole.
[[nodiscard]] bool slots_hold(std::span<const SiteLoad> planned, SiteId site, const SiteLoad& load);

/// Per task of a schedule: the compute tasks before it in issue order.
[[nodiscard]] std::vector<std::int32_t> compute_clock(const Schedule& schedule);

}  // namespace tidemark
