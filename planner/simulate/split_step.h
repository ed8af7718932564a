#pragma once
// Plays a split schedule with given pass times: modelled time only. Every rank runs its passes in order; a pass starts
// when the rank is free and its input is there. A forward waits for that of the stage before, dX for its forward and
// for the dX (or whole backward) of the stage after, dW for its dX; a message to another rank arrives a latency later,
// one within a rank (the turn of a V) at once. Sends and receives take no time of a rank. O(passes). Any thread.

#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "planner/graph_build/split_schedule.h"
#include "planner/graph_build/split_times.h"

namespace tidemark::simulate {

/// What one pass of one chunk keeps for its backward.
struct PassBytes {
  Bytes held_bytes = 0;     ///< from the start of its forward to the end of its dX (or whole backward)
  Bytes put_off_bytes = 0;  ///< from the end of its dX to the end of its dW: of split passes only
};

/// By [rank][chunk].
using PassBytesTable = std::vector<std::vector<PassBytes>>;

struct SplitRankRun {
  std::int64_t start_ns = 0;   ///< of its first pass
  std::int64_t finish_ns = 0;  ///< of its last
  std::int64_t busy_ns = 0;
};

struct SplitStepRun {
  std::vector<SplitRankRun> ranks;
  std::int64_t step_ns = 0;          ///< latest finish
  std::int64_t longest_rank_ns = 0;  ///< longest start to finish: the step where ranks need not begin and end together
  double bubble_share = 0;           ///< of step_ns, that a mean rank is idle
};

/// REQUIRES: times.chunks is [schedule.ranks][schedule.chunks]. Errors (internal): an order that stands still, named by
/// rank and pass; a pass that is listed twice or outside the schedule's counts.
[[nodiscard]] Result<SplitStepRun> run_split_step(const graph_build::SplitSchedule& schedule,
                                                  const graph_build::SplitTimeTable& times);

/// Per rank, the most bytes held at once: a property of the order alone. REQUIRES: bytes is
/// [schedule.ranks][schedule.chunks].
[[nodiscard]] std::vector<Bytes> peak_pass_bytes(const graph_build::SplitSchedule& schedule,
                                                 const PassBytesTable& bytes);

}  // namespace tidemark::simulate
