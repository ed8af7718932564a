#pragma once
// Absolute errors of predicted steps, percent of the measured one. Two rules beside each other: over rows, as others
// print them, and over split keys, where a series of near-copies counts once.

#include <cstddef>
#include <span>

#include "planner/step_time/timed_pair.h"

namespace tidemark::step_time {

/// Percent. All 0 where there are no rows. Quantiles are interpolated linearly.
struct TrackErrors {
  std::size_t rows = 0, keys = 0;
  double mean_percent = 0;  ///< MAPE over rows
  double row_p90_percent = 0, worst_percent = 0;
  double median_percent = 0, p90_percent = 0;  ///< over keys, of medians inside a key
};

/// Of pairs of one track. The order of pairs does not count but for rounding of the mean. O(n log n).
[[nodiscard]] TrackErrors track_errors(std::span<const TimedPair> pairs);

}  // namespace tidemark::step_time
