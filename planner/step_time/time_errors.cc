#include "planner/step_time/time_errors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

#include "planner/step_time/quantile.h"

namespace tidemark::step_time {

TrackErrors track_errors(std::span<const TimedPair> pairs) {
  if (pairs.empty()) return {};
  std::vector<double> errors;
  std::map<std::string_view, std::vector<double>> inside_keys;
  for (const TimedPair& pair : pairs) {
    errors.push_back(100 * std::abs(pair.predicted_s / pair.measured_s - 1));
    inside_keys[pair.split_key].push_back(errors.back());
  }
  std::vector<double> medians;
  for (const auto& [key, of_key] : inside_keys) medians.push_back(median_of(of_key));
  return {.rows = errors.size(),
          .keys = medians.size(),
          .mean_percent = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size()),
          .row_p90_percent = linear_quantile(errors, 0.9),
          .worst_percent = std::ranges::max(errors),
          .median_percent = median_of(medians),
          .p90_percent = linear_quantile(medians, 0.9)};
}

}  // namespace tidemark::step_time
