#include "planner/decision/bound.h"

#include <algorithm>
#include <utility>

#include "planner/decision/relaxation.h"

namespace tidemark {
namespace {

constexpr std::size_t kLeastPositions = 48;
constexpr std::size_t kHalfStepsPerPosition = 600;

/// The half-step with the most bytes in each of equal stretches of the clock, where the budget is
/// exceeded.
std::vector<std::int32_t> critical_positions(const DecisionProblem& p, Bytes budget) {
  std::vector<std::int32_t> positions;
  const std::size_t length = p.base_bytes.size();
  const std::size_t stretches = std::min(std::max(kLeastPositions, length / kHalfStepsPerPosition), length);
  for (std::size_t s = 0; s < stretches; ++s) {
    const auto begin = p.base_bytes.begin() + static_cast<std::ptrdiff_t>(s * length / stretches);
    const auto end = p.base_bytes.begin() + static_cast<std::ptrdiff_t>((s + 1) * length / stretches);
    const auto top = std::max_element(begin, end);
    if (*top > budget) positions.push_back(static_cast<std::int32_t>(top - p.base_bytes.begin()));
  }
  return positions;
}

Relaxation relax(const DecisionProblem& p, const std::vector<std::int32_t>& clock, Bytes device_budget,
                 Bytes host_budget) {
  Relaxation r;
  r.host_budget = static_cast<double>(host_budget);
  for (const std::int32_t t : clock)
    r.excess.push_back(static_cast<double>(p.base_bytes[static_cast<std::size_t>(t)] - device_budget));
  r.gaps.reserve(p.gaps.size());
  for (const GapRow& gap : p.gaps) {
    const auto lo = std::lower_bound(clock.begin(), clock.end(), gap.free_from);
    const auto hi = std::lower_bound(lo, clock.end(), gap.taken_from);
    const bool swappable = p.graph->template_of(gap.gap.storage).swappable;
    r.gaps.push_back(
        {.lo = static_cast<std::int32_t>(lo - clock.begin()),
         .hi = static_cast<std::int32_t>(hi - clock.begin()),
         .host_hi = static_cast<std::int32_t>(std::lower_bound(lo, hi, gap.host_until) - clock.begin()),
         .bytes = static_cast<double>(gap.bytes),
         .swap_cost = swappable ? static_cast<double>(gap.copy_out.compute_ns + gap.copy_in.compute_ns) : -1.0});
  }
  for (const SiteClass& c : p.classes)
    for (const std::int32_t first : c.first_gap)
      for (const SiteClass::Unit& unit : c.units) {
        r.units.push_back(
            {.first = static_cast<std::int32_t>(r.unit_gaps.size()),
             .count = static_cast<std::int32_t>(unit.slots.size()),
             .recompute_cost = unit.recipe == kNone<RecipeId> ? -1.0 : static_cast<double>(unit.compute_ns)});
        for (const std::int32_t slot : unit.slots) r.unit_gaps.push_back(first + slot);
      }
  return r;
}

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

Prices find_prices(const DecisionProblem& problem, Bytes device_budget, Bytes host_budget, int iterations,
                   const Prices* start) {
  Prices prices;
  prices.clock = critical_positions(problem, device_budget);
  const std::size_t n = prices.clock.size();
  // From a picosecond to a second for all excess bytes together.
  AscentStart from{.least_worth = 1e-3, .most_worth = 1e9};
  if (start != nullptr) {
    from.device.assign(n, 0);
    from.host.assign(n, 0);
    adopt(*start, prices.clock, from.device, from.host);
  }
  Ascent ascent = ascend(relax(problem, prices.clock, device_budget, host_budget), from, iterations);
  prices.bound_ns = ascent.bound;
  prices.device = std::move(ascent.device);
  prices.host = std::move(ascent.host);
  prices.recompute_share = std::move(ascent.recompute_share);
  prices.swap_share = std::move(ascent.swap_share);
  return prices;
}

double bound_of(const DecisionProblem& problem, Bytes device_budget, Bytes host_budget, const Prices& prices) {
  double value = 0;
  for (std::size_t t = 0; t < prices.clock.size(); ++t) {
    value += prices.device[t] *
             static_cast<double>(problem.base_bytes[static_cast<std::size_t>(prices.clock[t])] - device_budget);
    value -= prices.host[t] * static_cast<double>(host_budget);
  }
  const auto worth = [&](const GapRow& gap, bool swap) {
    double sum = 0;
    const auto first = std::lower_bound(prices.clock.begin(), prices.clock.end(), gap.free_from);
    for (auto t = static_cast<std::size_t>(first - prices.clock.begin());
         t < prices.clock.size() && prices.clock[t] < gap.taken_from; ++t) {
      sum += prices.device[t];
      if (swap && prices.clock[t] < gap.host_until) sum -= prices.host[t];
    }
    return sum * static_cast<double>(gap.bytes);
  };
  for (const SiteClass& c : problem.classes)
    for (const std::int32_t first : c.first_gap)
      for (const SiteClass::Unit& unit : c.units) {
        double swap = 0, recompute = static_cast<double>(unit.compute_ns);
        for (const std::int32_t slot : unit.slots) {
          const GapRow& gap = problem.gaps[static_cast<std::size_t>(first + slot)];
          recompute -= worth(gap, false);
          if (problem.graph->template_of(gap.gap.storage).swappable)
            swap +=
                std::min(0.0, static_cast<double>(gap.copy_out.compute_ns + gap.copy_in.compute_ns) - worth(gap, true));
        }
        if (unit.recipe == kNone<RecipeId>) recompute = 0;
        value += std::min({0.0, recompute, swap});
      }
  return value;
}

}  // namespace tidemark
