#pragma once
// Quantiles interpolated linearly between order statistics, as numpy does by default (type 7 of Hyndman and Fan,
// "Sample Quantiles in Statistical Packages", 1996). The memory score takes nearest ranks instead.

#include <vector>

namespace tidemark::step_time {

/// REQUIRES: not empty, no NaN, `share` in [0, 1]. O(n log n).
[[nodiscard]] double linear_quantile(std::vector<double> values, double share);

/// Of an even count the mean of the middle two. REQUIRES: not empty, no NaN.
[[nodiscard]] double median_of(std::vector<double> values);

}  // namespace tidemark::step_time
