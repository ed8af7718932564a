#include "planner/decide/gaps/prices.h"

#include <algorithm>
#include <utility>

namespace tidemark::decide::gaps {
namespace {

constexpr std::size_t kLeastPositions = 48;
constexpr std::size_t kPositionsPerPrice = 600;

/// Takes over the prices of the positions both have.
void adopt(const Prices& start, const std::vector<std::int32_t>& clock, std::vector<double>& device,
           std::vector<double>& host) {
  for (std::size_t t = 0; t < clock.size(); ++t) {
    const auto it = std::lower_bound(start.clock.begin(), start.clock.end(), clock[t]);
    if (it == start.clock.end() || *it != clock[t]) continue;
    device[t] = start.device[static_cast<std::size_t>(it - start.clock.begin())];
    host[t] = start.host[static_cast<std::size_t>(it - start.clock.begin())];
  }
}

}  // namespace

Relaxation relaxation_of(const GapProblem& p, const std::vector<std::int32_t>& clock, Bytes device_budget,
                         Bytes host_budget) {
  Relaxation r{.unit_gaps = p.unit_gaps};
  r.host_budget = static_cast<double>(host_budget - p.base_host_bytes);
  for (const std::int32_t t : clock)
    r.excess.push_back(static_cast<double>(p.base_bytes[static_cast<std::size_t>(t)] - device_budget));
  r.gaps.reserve(p.gaps.size());
  for (const GapProblem::Gap& gap : p.gaps) {
    const auto lo = std::lower_bound(clock.begin(), clock.end(), gap.free_from);
    const auto hi = std::lower_bound(lo, clock.end(), gap.taken_from);
    r.gaps.push_back({.lo = static_cast<std::int32_t>(lo - clock.begin()),
                      .hi = static_cast<std::int32_t>(hi - clock.begin()),
                      .host_hi = static_cast<std::int32_t>(std::lower_bound(lo, hi, gap.host_until) - clock.begin()),
                      .bytes = static_cast<double>(gap.bytes),
                      .swap_cost = gap.swap_cost});
  }
  r.units.reserve(p.units.size());
  for (const GapProblem::Unit& unit : p.units)
    r.units.push_back({.first = unit.first, .count = unit.count, .recompute_cost = unit.recompute_cost});
  return r;
}

std::vector<std::int32_t> critical_positions(const GapProblem& p, Bytes budget) {
  std::vector<std::int32_t> positions;
  const std::size_t length = p.base_bytes.size();
  const std::size_t stretches = std::min(std::max(kLeastPositions, length / kPositionsPerPrice), length);
  for (std::size_t s = 0; s < stretches; ++s) {
    const auto begin = p.base_bytes.begin() + static_cast<std::ptrdiff_t>(s * length / stretches);
    const auto end = p.base_bytes.begin() + static_cast<std::ptrdiff_t>((s + 1) * length / stretches);
    const auto top = std::max_element(begin, end);
    if (*top > budget) positions.push_back(static_cast<std::int32_t>(top - p.base_bytes.begin()));
  }
  return positions;
}

std::vector<std::int32_t> positions_above(const GapProblem& p, Bytes budget) {
  std::vector<std::int32_t> positions;
  for (std::size_t t = 0; t < p.base_bytes.size(); ++t)
    if (p.base_bytes[t] > budget) positions.push_back(static_cast<std::int32_t>(t));
  return positions;
}

Prices find_prices(const GapProblem& problem, std::vector<std::int32_t> positions, Bytes device_budget,
                   Bytes host_budget, int iterations, const Prices* start, const std::function<bool()>& should_stop) {
  Prices prices;
  prices.clock = std::move(positions);
  const std::size_t n = prices.clock.size();
  AscentStart from{.least_worth = problem.least_worth, .most_worth = problem.most_worth};
  if (start != nullptr) {
    from.device.assign(n, 0);
    from.host.assign(n, 0);
    adopt(*start, prices.clock, from.device, from.host);
  }
  Ascent ascent =
      ascend(relaxation_of(problem, prices.clock, device_budget, host_budget), from, iterations, should_stop);
  prices.bound = ascent.bound;
  prices.device = std::move(ascent.device);
  prices.host = std::move(ascent.host);
  prices.recompute_share = std::move(ascent.recompute_share);
  prices.swap_share = std::move(ascent.swap_share);
  return prices;
}

double bound_of(const GapProblem& problem, Bytes device_budget, Bytes host_budget, const Prices& prices) {
  double value = 0;
  for (std::size_t t = 0; t < prices.clock.size(); ++t) {
    value += prices.device[t] *
             static_cast<double>(problem.base_bytes[static_cast<std::size_t>(prices.clock[t])] - device_budget);
    value -= prices.host[t] * static_cast<double>(host_budget - problem.base_host_bytes);
  }
  const auto worth = [&](const GapProblem::Gap& gap, bool swap) {
    double sum = 0;
    const auto first = std::lower_bound(prices.clock.begin(), prices.clock.end(), gap.free_from);
    for (auto t = static_cast<std::size_t>(first - prices.clock.begin());
         t < prices.clock.size() && prices.clock[t] < gap.taken_from; ++t) {
      sum += prices.device[t];
      if (swap && prices.clock[t] < gap.host_until) sum -= prices.host[t];
    }
    return sum * static_cast<double>(gap.bytes);
  };
  for (const GapProblem::Unit& unit : problem.units) {
    double swap = 0, recompute = unit.recompute_cost;
    for (const std::int32_t g : problem.gaps_of(unit)) {
      const GapProblem::Gap& gap = problem.gaps[static_cast<std::size_t>(g)];
      recompute -= worth(gap, false);
      if (gap.swap_cost >= 0) swap += std::min(0.0, gap.swap_cost - worth(gap, true));
    }
    if (unit.recompute_cost < 0) recompute = 0;
    value += std::min({0.0, recompute, swap});
  }
  return value;
}

}  // namespace tidemark::decide::gaps
