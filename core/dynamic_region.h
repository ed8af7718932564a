#pragma once
// What happens when a routed storage is larger than planned, written once for the planner, which promises up to which
// expert load everything still fits (Program::contingency_limit_f), and for the runtime, which keeps the promise.
//
// The device arena is mapped memory in granules, and granules are permanent and interchangeable: only addresses change.
// A residency whose actual bytes exceed its planned bytes is *oversized*. It then stands in a fresh window of addresses
// made of the whole granules inside its own slot [offset, offset + planned bytes) and of as many granules of the
// *dynamic region* as are missing, its *extra*, less those that stand in holes of the plan (core/hole_granules.h); the
// rest of its slot, granules it shares with neighbours, stays unused.
//
//   height_bytes                       capacity
//   |  rounded up to a granule         |
//   .  v[ 0 ][ 1 ][ 2 ] ... [ n-1 ]    .      the dynamic region: whole granules of
//                                             [height_bytes, height_bytes + dynamic_bytes)
//
// The extra is taken for the stay [acquire, release) of the residency on the compute clock (core/schedule.h). With a
// contingency in force for it, two stays: [acquire, 2 * clock(release_at)) and [2 * clock(prefetch_at) + 1, release).
// Because granules are interchangeable there is no fragmentation: a set of stays fits whenever at every half-step the
// sum of extras is within the region, and taking any free granule in the order of the clock succeeds. To take them in
// that order the runtime takes at issue of the first touch and lets a first touch off the compute lane wait for the
// compute task issued last: its stay then starts later than planned, never earlier.
//
// Bound. A contingency is in force for a storage whose actual bytes exceed trigger_bytes, so in between its extra is at
// most that at trigger_bytes. Extras grow with the load of the site. Hence for all loads up to f, each site with its
// own, the sum at a half-step is at most that of `dynamic_demand` at f.
//
// A device whose granule divides kPlanGranule can carry out a plan made for kPlanGranule: no extra grows in bytes, and
// the region does not shrink.

#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "core/layout.h"
#include "core/program.h"

namespace tidemark {

/// The granule that plans are made for: that of virtual memory management on the devices known.
inline constexpr Bytes kPlanGranule = 2 * kMiB;

/// Granules of an arena by number: granule n is [n * granule, (n + 1) * granule) from the arena's base.
struct GranuleRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const GranuleRange&, const GranuleRange&) = default;
};

/// The whole granules inside [offset, offset + bytes).
[[nodiscard]] GranuleRange granules_inside(Bytes offset, Bytes bytes, Bytes granule);

/// The whole granules of the arena's dynamic region.
[[nodiscard]] GranuleRange dynamic_region(const Arena& arena, Bytes granule);

/// Granules of the dynamic region that a residency takes; 0 if actual_bytes <= planned_bytes.
[[nodiscard]] std::int64_t extra_granules(Bytes offset, Bytes planned_bytes, Bytes actual_bytes, Bytes granule);

/// What a routed storage takes at load f; the same as storage_bytes of its template.
[[nodiscard]] Bytes routed_bytes(const RoutedResidency& routed, double load);

/// Per half-step of the compute clock (2 * compute_tasks + 1 of them): the most granules of the dynamic region that can
/// be taken there while no site's load exceeds `load`, with all contingencies of the program and no holes,
/// and what its sections keep taken from their begin on. O(routed + contingencies + tasks).
[[nodiscard]] std::vector<std::int64_t> dynamic_demand(const Program& program, double load,
                                                       Bytes granule = kPlanGranule);

/// Per task of a schedule: the compute tasks before it in issue order.
[[nodiscard]] std::vector<std::int32_t> compute_clock(const Schedule& schedule);

}  // namespace tidemark
