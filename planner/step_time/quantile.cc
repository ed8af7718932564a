#include "planner/step_time/quantile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace tidemark::step_time {

double linear_quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

double median_of(std::vector<double> values) {
  return linear_quantile(std::move(values), 0.5);
}

}  // namespace tidemark::step_time
