#include "planner/known_share.h"

#include <algorithm>
#include <cmath>

namespace tidemark::plan {

double share_quantile(const KnownShare& known, std::int64_t next, double chance) {
  const double a = known.above, b = known.below, count = static_cast<double>(next);
  // Of the beta-binomial distribution, from no success on.
  double log_chance = std::lgamma(b + count) - std::lgamma(a + b + count) + std::lgamma(a + b) - std::lgamma(b);
  double below = 0;
  for (std::int64_t k = 0; k < next; ++k) {
    below += std::exp(log_chance);
    if (below >= chance) return static_cast<double>(k) / count;
    const auto at = static_cast<double>(k);
    log_chance += std::log((count - at) / (at + 1)) + std::log(at + a) - std::log(b + count - at - 1);
  }
  return 1;
}

double share_at_most(std::int64_t above, std::int64_t seen, std::int64_t next) {
  return share_quantile({.above = static_cast<double>(above) + 0.5, .below = static_cast<double>(seen - above) + 0.5},
                        next, (1 + kShareConfidence) / 2);
}

KnownShare share_of_next(std::span<const std::int64_t> above, std::int64_t of) {
  const auto truths = static_cast<double>(above.size()), trials = static_cast<double>(of);
  double sum = 0, squares = 0;
  for (const std::int64_t count : above) sum += static_cast<double>(count);
  const double share = (sum + 0.5) / (truths * trials + 1), spread = share * (1 - share);
  for (const std::int64_t count : above) {
    const double apart = static_cast<double>(count) / trials - sum / (truths * trials);
    squares += apart * apart;
  }
  // Part of the spread that is between truths; with one trial each there is no telling.
  double between = 0;
  if (truths > 1 && trials > 1)
    between = std::clamp((squares / (truths - 1) / spread - 1 / trials) / (1 - 1 / trials), 0.0, 1.0);
  const double trials_worth = truths * trials / (1 + (trials - 1) * between);
  const double worth = std::max(1e-3, 1 / (between + 1 / (trials_worth + 2)) - 1);
  return {.above = share * worth, .below = (1 - share) * worth};
}

}  // namespace tidemark::plan
