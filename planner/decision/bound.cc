#include "planner/decision/bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tidemark {
namespace {

constexpr std::size_t kLeastPositions = 48;
constexpr std::size_t kHalfStepsPerPosition = 600;
constexpr double kMomentum = 0.9, kMemory = 0.99;
// Steps relative to the best uniform price, shrinking geometrically. Larger last steps oscillate, smaller first ones
// stop short.
constexpr double kFirstStep = 4, kLastStep = 0.02, kWarmStep = 0.15;

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

/// Everything the ascent reads, in flat arrays: one entry per gap, one per unit instance.
struct Relaxation {
  struct GapTerm {
    std::int32_t lo = 0, hi = 0;  ///< priced positions inside the gap
    std::int32_t host_hi = 0;     ///< end of those at which a swapped copy holds host memory for certain
    double bytes = 0;
    double swap_ns = 0;  ///< negative: cannot be swapped
  };
  struct UnitTerm {
    std::int32_t first = 0, count = 0;  ///< into unit_gaps
    double recompute_ns = -1;           ///< negative: no recipe
  };
  std::vector<GapTerm> gaps;
  std::vector<UnitTerm> units;
  std::vector<std::int32_t> unit_gaps;
  std::vector<double> excess;  ///< base - budget per position
  double host_budget = 0;
};

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
         .swap_ns = swappable ? static_cast<double>(gap.copy_out.compute_ns + gap.copy_in.compute_ns) : -1.0});
  }
  for (const SiteClass& c : p.classes)
    for (const std::int32_t first : c.first_gap)
      for (const SiteClass::Unit& unit : c.units) {
        r.units.push_back(
            {.first = static_cast<std::int32_t>(r.unit_gaps.size()),
             .count = static_cast<std::int32_t>(unit.slots.size()),
             .recompute_ns = unit.recipe == kNone<RecipeId> ? -1.0 : static_cast<double>(unit.compute_ns)});
        for (const std::int32_t slot : unit.slots) r.unit_gaps.push_back(first + slot);
      }
  return r;
}

/// What the minimiser of the Lagrangian does, by position and by gap.
struct Minimiser {
  std::vector<double> removed, swapped;  ///< bytes per position
  std::vector<Action> action;            ///< per gap
};

double lagrangian(const Relaxation& r, const std::vector<double>& device, const std::vector<double>& host,
                  Minimiser& m) {
  const std::size_t n = device.size();
  std::vector<double> sum(n + 1, 0), host_sum(n + 1, 0);
  double value = 0;
  for (std::size_t t = 0; t < n; ++t) {
    sum[t + 1] = sum[t] + device[t];
    host_sum[t + 1] = host_sum[t] + host[t];
    value += device[t] * r.excess[t] - host[t] * r.host_budget;
  }
  m.removed.assign(n + 1, 0);
  m.swapped.assign(n + 1, 0);
  for (const auto& unit : r.units) {
    const std::int32_t* rows = r.unit_gaps.data() + unit.first;
    double recompute = unit.recompute_ns, swap = 0;
    for (std::int32_t i = 0; i < unit.count; ++i) {
      const auto& gap = r.gaps[static_cast<std::size_t>(rows[i])];
      const auto lo = static_cast<std::size_t>(gap.lo), hi = static_cast<std::size_t>(gap.hi);
      const double worth = gap.bytes * (sum[hi] - sum[lo]);
      recompute -= worth;
      const double swapped =
          gap.swap_ns < 0
              ? 0.0
              : gap.swap_ns - worth + gap.bytes * (host_sum[static_cast<std::size_t>(gap.host_hi)] - host_sum[lo]);
      m.action[static_cast<std::size_t>(rows[i])] = swapped < 0 ? Action::swap : Action::keep;
      swap += std::min(0.0, swapped);
    }
    const bool take_recompute = unit.recompute_ns >= 0 && recompute < swap;
    value += take_recompute ? recompute : swap;
    for (std::int32_t i = 0; i < unit.count; ++i) {
      Action& action = m.action[static_cast<std::size_t>(rows[i])];
      if (take_recompute) action = Action::recompute;
      if (action == Action::keep) continue;
      const auto& gap = r.gaps[static_cast<std::size_t>(rows[i])];
      m.removed[static_cast<std::size_t>(gap.lo)] += gap.bytes;
      m.removed[static_cast<std::size_t>(gap.hi)] -= gap.bytes;
      if (action != Action::swap) continue;
      m.swapped[static_cast<std::size_t>(gap.lo)] += gap.bytes;
      m.swapped[static_cast<std::size_t>(gap.host_hi)] -= gap.bytes;
    }
  }
  double removed = 0, swapped = 0;
  for (std::size_t t = 0; t <= n; ++t) {
    swapped += m.swapped[t];
    removed += m.removed[t];
    m.swapped[t] = swapped;
    m.removed[t] = removed;
  }
  return value;
}

/// One price for all positions that exceed the budget: the best of a few. The value is concave in it, so it rises up to
/// the best and falls from there.
double best_uniform_price(const Relaxation& r, Minimiser& m) {
  const std::size_t n = r.excess.size();
  const double total = std::accumulate(r.excess.begin(), r.excess.end(), 0.0);
  // From a picosecond to a second for all excess bytes together, in steps of a third.
  std::vector<double> prices{0};
  for (double price = 1e-3 / total; price < 1e9 / total; price *= 1.33) prices.push_back(price);
  const auto value_at = [&](std::size_t i) {
    return lagrangian(r, std::vector<double>(n, prices[i]), std::vector<double>(n, 0), m);
  };
  std::size_t best = 0, falls = prices.size();
  while (falls - best > 1) {
    const std::size_t middle = best + (falls - best) / 2;
    (value_at(middle) > value_at(middle - 1) ? best : falls) = middle;
  }
  return prices[best];
}

/// Averages the minimisers seen so far into a fractional plan.
void average(const Minimiser& m, float weight, Prices& prices) {
  for (std::size_t g = 0; g < m.action.size(); ++g) {
    prices.recompute_share[g] +=
        weight * ((m.action[g] == Action::recompute ? 1.0F : 0.0F) - prices.recompute_share[g]);
    prices.swap_share[g] += weight * ((m.action[g] == Action::swap ? 1.0F : 0.0F) - prices.swap_share[g]);
  }
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
  Prices best;
  best.clock = critical_positions(problem, device_budget);
  best.recompute_share.assign(problem.gaps.size(), 0);
  best.swap_share.assign(problem.gaps.size(), 0);
  const std::size_t n = best.clock.size();
  best.device.assign(n, 0);
  best.host.assign(n, 0);
  if (n == 0) return best;

  const Relaxation r = relax(problem, best.clock, device_budget, host_budget);
  Minimiser m;
  m.action.assign(problem.gaps.size(), Action::keep);
  std::vector<double> device(n, 0), host(n, 0);
  if (start == nullptr)
    std::fill(device.begin(), device.end(), best_uniform_price(r, m));
  else
    adopt(*start, best.clock, device, host);

  // Adam (Kingma and Ba 2015) on the subgradient: prices of neighbouring positions differ by orders of magnitude, so
  // every coordinate needs a step of its own.
  const double scale = std::max(std::accumulate(device.begin(), device.end(), 0.0) / static_cast<double>(n), 1e-12);
  const double first_step = start == nullptr ? kFirstStep : kFirstStep * kWarmStep;
  std::vector<double> mean(2 * n, 0), square(2 * n, 0);
  double decay1 = 1, decay2 = 1;
  for (int i = 0; i < iterations; ++i) {
    const double value = lagrangian(r, device, host, m);
    average(m, std::max(0.02F, 1.0F / static_cast<float>(i + 1)), best);
    if (value > best.bound_ns) {
      best.bound_ns = value;
      best.device = device;
      best.host = host;
    }
    decay1 *= kMomentum;
    decay2 *= kMemory;
    const double rate = scale * first_step * std::pow(kLastStep / first_step, static_cast<double>(i) / iterations);
    for (std::size_t t = 0; t < 2 * n; ++t) {
      double& x = t < n ? device[t] : host[t - n];
      double g = t < n ? r.excess[t] - m.removed[t] : m.swapped[t - n] - r.host_budget;
      if (x <= 0 && g < 0) g = 0;
      mean[t] = kMomentum * mean[t] + (1 - kMomentum) * g;
      square[t] = kMemory * square[t] + (1 - kMemory) * g * g;
      if (square[t] <= 0) continue;
      x = std::max(0.0, x + rate * (mean[t] / (1 - decay1)) / std::sqrt(square[t] / (1 - decay2)));
    }
  }
  return best;
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
