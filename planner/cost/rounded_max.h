#pragma once
// Two lanes that run beside each other but meet often: neither hides behind the other wholly. Modelled.

#include <algorithm>
#include <cmath>

namespace tidemark::cost {

/// `sharpness` of device and host. The host runs ahead by as much as the queue of launches holds, so that the shorter
/// lane shows little: 7 % where both are as long. A default of the model, set on the development rows, not fitted.
inline constexpr double kHostSharpness = 10;

/// (a^p + b^p)^(1/p), p = `sharpness` > 0: at least the longer lane, and most above it where both are as long. Seconds;
/// a lane of no time leaves the other as it is.
[[nodiscard]] inline double rounded_max(double a, double b, double sharpness) {
  const double longer = std::max(a, b), shorter = std::min(a, b);
  if (shorter <= 0) return longer;
  return longer * std::pow(1 + std::pow(shorter / longer, sharpness), 1 / sharpness);
}

}  // namespace tidemark::cost
