#pragma once
// The relaxation behind every lower bound here, and its Lagrangian. Storages idle in *gaps* on a row of priced
// positions; at each position enough bytes must be gone. A *unit* of gaps is given up together by running its recipe
// again, or each gap by itself by a swap; what is gone in host memory must fit there. Room for copies, workspaces, time
// on links and what runs need in turn are left out, so any prices of memory (device and host, >= 0) prove
//   cost >= sum_t device_t excess_t - sum_t host_t H + sum over units of the least of (cost - value of what it frees).
// A subgradient ascent looks for good prices. Costs are in whatever the caller counts.

#include <cstdint>
#include <functional>
#include <vector>

namespace tidemark::decide::gaps {

struct Relaxation {
  struct Gap {
    std::int32_t lo = 0, hi = 0;  ///< priced positions inside the gap
    std::int32_t host_hi = 0;     ///< end of those at which a swapped copy holds host memory for certain
    double bytes = 0;
    double swap_cost = -1;  ///< negative: cannot be swapped
  };
  struct Unit {
    std::int32_t first = 0, count = 0;  ///< into unit_gaps
    double recompute_cost = -1;         ///< negative: no recipe
  };
  std::vector<Gap> gaps;
  std::vector<Unit> units;
  std::vector<std::int32_t> unit_gaps;
  std::vector<double> excess;  ///< bytes with everything kept less the budget, per position
  double host_budget = 0;
};

/// Where an ascent sets out.
struct AscentStart {
  /// Prices per position; empty: one price for all positions, the best of those at which giving up all excess bytes
  /// together is worth `least_worth` to `most_worth`.
  std::vector<double> device, host;
  double least_worth = 0, most_worth = 0;
};

struct Ascent {
  double bound = 0;                  ///< what the best prices prove; >= 0
  std::vector<double> device, host;  ///< those prices, per position
  /// The running average of the minimisers: close to an optimal fractional plan (volume algorithm, Barahona and Anbil
  /// 2000). Per gap, the share in which it is recomputed and swapped, 0 to 1.
  std::vector<float> recompute_share, swap_share;
};

/// O(iterations * (gaps + positions)). Sets out with shorter steps where it is given prices. Told to stop, it ends with
/// the best prices so far, which prove a bound as well.
[[nodiscard]] Ascent ascend(const Relaxation& relaxation, const AscentStart& start, int iterations,
                            const std::function<bool()>& should_stop = {});

}  // namespace tidemark::decide::gaps
