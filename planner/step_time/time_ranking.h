#pragma once
// Whether predictions order the layouts of a job as measurements do, and what it costs to run the one they pick.

#include <cstddef>
#include <span>

#include "planner/step_time/timed_pair.h"

namespace tidemark::step_time {

/// Over groups of at least two runs of the same job.
struct TrackRanking {
  std::size_t groups = 0;
  /// Of one group, measured 3 % apart or more, and predicted apart: a pair predicted equal is neither in order nor out
  /// of order, and in no denominator. All ties make no pairs, not a good score.
  std::size_t pairs = 0;
  double kendall_tau = 0;  ///< (in order - out of order) / pairs; 0 where there are no pairs
  /// Measured time of the layout with the least predicted one (of several the first in order), above the best measured
  /// of its group. 0 where there are no groups.
  double regret_p90_percent = 0, regret_worst_percent = 0;
};

/// Of pairs of one track. O(squares of groups).
[[nodiscard]] TrackRanking track_ranking(std::span<const TimedPair> pairs);

}  // namespace tidemark::step_time
