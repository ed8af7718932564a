#pragma once
// The rival of the step time model: the same share of the peak for every run of a track, device and precision. What it
// takes no model to predict; a model that is no better is not worth its terms.

#include <optional>
#include <span>
#include <vector>

#include "planner/step_time/timed_pair.h"

namespace tidemark::step_time {

/// Seconds of each: its model FLOP over the median (of logs) FLOP/s of the other folds of its track, device and
/// precision. On one device a constant rate is a constant share of the peak, whatever the peak. None: the pair has no
/// model FLOP/s, or none of those has.
[[nodiscard]] std::vector<std::optional<double>> constant_mfu_s(std::span<const TimedPair> pairs);

}  // namespace tidemark::step_time
