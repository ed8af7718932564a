#pragma once
// A proven lower bound of what any choice must add, and the prices of memory that prove it.
//
// Lagrangian relaxation: at chosen positions t, device bytes cost lambda_t and host bytes mu_t (>= 0, cost per byte).
// For every choice that fits,
//   added >= sum_t lambda_t (base_t - B) - sum_t mu_t H + sum_units min over its options (cost - value of the bytes it
//   removes),
// where a recompute costs the least it can, a swap its copy overhead alone, and either is credited with the whole gap:
// all three only make the right side smaller. Any prices prove a bound; a subgradient ascent looks for good ones. The
// link's capacity, transients and exposed time are left out, which keeps the bound valid and makes it weaker.

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/decide/gaps/gap_problem.h"
#include "planner/decide/gaps/relaxation.h"

namespace tidemark::decide::gaps {

struct Prices {
  std::vector<std::int32_t> clock;  ///< positions priced, ascending
  std::vector<double> device;       ///< lambda, cost per byte
  std::vector<double> host;         ///< mu, cost per byte
  double bound = 0;                 ///< what these prices prove
  /// The ascent's running average of its minimisers: close to an optimal fractional plan (volume algorithm, Barahona
  /// and Anbil 2000). Per gap, the share in which it is recomputed and swapped, 0 to 1.
  std::vector<float> recompute_share;
  std::vector<float> swap_share;
};

/// The relaxation of a problem at some positions, ascending, whatever they hold.
[[nodiscard]] Relaxation relaxation_of(const GapProblem& problem, const std::vector<std::int32_t>& positions,
                                       Bytes device_budget, Bytes host_budget);
/// The position with the most bytes in each of equal stretches of the row, where the budget is exceeded.
[[nodiscard]] std::vector<std::int32_t> critical_positions(const GapProblem& problem, Bytes device_budget);
/// All positions at which the budget is exceeded.
[[nodiscard]] std::vector<std::int32_t> positions_above(const GapProblem& problem, Bytes device_budget);

/// REQUIRES: budgets >= 0; positions ascending, without `start` each above the budget. O(iterations * gaps). `start`:
/// prices of a similar budget to set out from, with shorter steps. `should_stop`: as of ascend().
[[nodiscard]] Prices find_prices(const GapProblem& problem, std::vector<std::int32_t> positions, Bytes device_budget,
                                 Bytes host_budget, int iterations, const Prices* start = nullptr,
                                 const std::function<bool()>& should_stop = {});

/// The bound that given prices prove, by direct summation: an independent check of find_prices.
[[nodiscard]] double bound_of(const GapProblem& problem, Bytes device_budget, Bytes host_budget, const Prices& prices);

}  // namespace tidemark::decide::gaps
