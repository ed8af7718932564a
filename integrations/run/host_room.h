#pragma once
// Whether a plan's memory fits into this machine, judged before any of it is taken: real memory that runs out late
// takes the whole machine down with it. Ranks run one after the other, so the largest one decides.

#include <cstdint>
#include <span>
#include <string>

#include "core/result.h"
#include "planner/planner.h"

namespace tidemark::run {

/// What a rank takes of the machine at 1/scale.
struct HostNeed {
  Bytes device_bytes = 0;  ///< arenas that stand for device memory, to their height
  Bytes pinned_bytes = 0;
  [[nodiscard]] Bytes total_bytes() const { return device_bytes + pinned_bytes; }
};
[[nodiscard]] HostNeed host_need(const plan::RankPlan& rank, std::int64_t scale);

/// What there is.
struct HostRoom {
  Bytes available_bytes = 0;  ///< beside everything in use, the plan as read included
  Bytes in_use_bytes = 0;     ///< by this process: mostly the plan
  std::string limit;          ///< where available_bytes comes from: "limit of memory group /x"; empty: the machine
};
/// Of the machine, the container or the limits of the process, whichever is least.
[[nodiscard]] HostRoom host_room();

/// Errors (infeasible): one rank needs more; the message has the bytes needed and available, and the scale that fits.
[[nodiscard]] Status check_host_room(std::span<const plan::RankPlan> ranks, std::int64_t scale, const HostRoom& room);

}  // namespace tidemark::run
