#pragma once
// Where the step of a rank goes, seen from its compute lane.

#include <cstdint>
#include <span>

#include "planner/planner.h"

namespace tidemark::plan {

/// Nanoseconds per step, modelled. All lines but the last two add up to `step_ns`.
struct TimeSplit {
  std::int64_t step_ns = 0;
  std::int64_t compute_ns = 0;        ///< ops of the step itself
  std::int64_t recompute_ns = 0;      ///< ops run again
  std::int64_t copy_overhead_ns = 0;  ///< launches and memory bandwidth that copies take from the compute lane
  std::int64_t exposed_communication_ns = 0;
  std::int64_t exposed_copy_ns = 0;
  std::int64_t bubble_ns = 0;         ///< waiting for other ranks, and idle after the rank's last task
  std::int64_t communication_ns = 0;  ///< both communication lanes busy, hidden or not
  std::int64_t copy_ns = 0;           ///< the busier copy lane
};

[[nodiscard]] TimeSplit split_time(const RankPlan& rank, std::int64_t step_ns);

/// The mean over ranks, each line rounded down but `bubble_ns`, which keeps the sum. REQUIRES: at least one rank.
[[nodiscard]] TimeSplit mean_split(std::span<const TimeSplit> ranks);

}  // namespace tidemark::plan
