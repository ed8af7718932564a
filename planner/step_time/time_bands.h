#pragma once
// How far off a prediction may be, told by the errors of others: split conformal prediction over the folds of split
// keys (Vovk, Gammerman, Shafer, "Algorithmic Learning in a Random World", 2005). Where errors of a track are alike, a
// band holds at least four fifths of them, whatever their distribution.

#include <span>
#include <vector>

#include "planner/step_time/timed_pair.h"

namespace tidemark::step_time {

/// How much the larger of predicted and measured is above the other, percent: a band of this half width just holds it.
[[nodiscard]] double off_percent(const TimedPair& pair);

/// Of n the ceil(4/5 (n + 1))-th smallest, or the largest: the 80 % conformal quantile. REQUIRES: not empty.
[[nodiscard]] double conformal_percent(std::vector<double> off_percents);

/// Half width of each pair's band: the 80 % conformal quantile of off_percent in the other folds of its track, or in
/// its own where there is no other. The measured time is in the band if it is within a factor 1 + percent / 100 of the
/// predicted one, either way.
[[nodiscard]] std::vector<double> band_percents(std::span<const TimedPair> pairs);

}  // namespace tidemark::step_time
