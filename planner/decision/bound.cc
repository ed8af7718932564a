#include "planner/decision/bound.h"

#include <algorithm>
#include <cmath>

namespace tidemark {
namespace {

constexpr std::size_t kMaxPositions = 192;

/// The half-step with the most bytes in each of up to kMaxPositions equal stretches of the clock, where the budget is
/// exceeded.
std::vector<std::int32_t> critical_positions(const DecisionProblem& p, Bytes budget) {
  std::vector<std::int32_t> positions;
  const std::size_t length = p.base_bytes.size();
  const std::size_t stretches = std::min(kMaxPositions, length);
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

/// Value of the Lagrangian at given prices and, if asked, the bytes its minimiser removes and swaps at each position.
double lagrangian(const Relaxation& r, const std::vector<double>& device, const std::vector<double>& host,
                  std::vector<double>* removed, std::vector<double>* swapped) {
  const std::size_t n = device.size();
  std::vector<double> sum(n + 1, 0), net(n + 1, 0);
  double value = 0;
  for (std::size_t t = 0; t < n; ++t) {
    sum[t + 1] = sum[t] + device[t];
    net[t + 1] = net[t] + std::max(0.0, device[t] - host[t]);
    value += device[t] * r.excess[t] - host[t] * r.host_budget;
  }
  if (removed != nullptr) {
    removed->assign(n + 1, 0);
    swapped->assign(n + 1, 0);
  }
  for (const auto& unit : r.units) {
    double recompute = unit.recompute_ns, swap = 0;
    for (std::int32_t i = 0; i < unit.count; ++i) {
      const auto& gap = r.gaps[static_cast<std::size_t>(r.unit_gaps[static_cast<std::size_t>(unit.first + i)])];
      const auto lo = static_cast<std::size_t>(gap.lo), hi = static_cast<std::size_t>(gap.hi);
      recompute -= gap.bytes * (sum[hi] - sum[lo]);
      if (gap.swap_ns >= 0) swap += std::min(0.0, gap.swap_ns - gap.bytes * (net[hi] - net[lo]));
    }
    if (unit.recompute_ns < 0) recompute = 0;
    const double best = std::min({0.0, recompute, swap});
    value += best;
    if (removed == nullptr || best >= 0) continue;
    for (std::int32_t i = 0; i < unit.count; ++i) {
      const auto& gap = r.gaps[static_cast<std::size_t>(r.unit_gaps[static_cast<std::size_t>(unit.first + i)])];
      const auto lo = static_cast<std::size_t>(gap.lo), hi = static_cast<std::size_t>(gap.hi);
      if (recompute > swap && (gap.swap_ns < 0 || gap.swap_ns - gap.bytes * (net[hi] - net[lo]) >= 0)) continue;
      (*removed)[lo] += gap.bytes;
      (*removed)[hi] -= gap.bytes;
      if (recompute <= swap) continue;
      (*swapped)[lo] += gap.bytes;
      (*swapped)[hi] -= gap.bytes;
    }
  }
  if (removed != nullptr)
    for (std::size_t t = 1; t <= n; ++t) {
      (*removed)[t] += (*removed)[t - 1];
      (*swapped)[t] += (*swapped)[t - 1];
    }
  return value;
}

}  // namespace

Prices find_prices(const DecisionProblem& problem, Bytes device_budget, Bytes host_budget, double upper_bound_ns,
                   int iterations) {
  Prices best;
  best.clock = critical_positions(problem, device_budget);
  const std::size_t n = best.clock.size();
  best.device.assign(n, 0);
  best.host.assign(n, 0);
  if (n == 0) return best;

  const Relaxation r = relax(problem, best.clock, device_budget, host_budget);
  std::vector<double> device(n, 0), host(n, 0), removed, swapped;
  double agility = 1.0;
  int stale = 0;
  for (int i = 0; i < iterations; ++i) {
    const double value = lagrangian(r, device, host, &removed, &swapped);
    if (value > best.bound_ns) {
      stale = value > best.bound_ns * 1.0005 ? 0 : stale + 1;
      best.bound_ns = value;
      best.device = device;
      best.host = host;
    } else {
      ++stale;
    }
    if (stale >= 6) {
      agility *= 0.6;
      stale = 0;
      device = best.device;
      host = best.host;
      if (agility < 0.01) break;
      continue;
    }
    double norm = 0;
    std::vector<double> device_slope(n), host_slope(n);
    for (std::size_t t = 0; t < n; ++t) {
      device_slope[t] = r.excess[t] - removed[t];
      host_slope[t] = swapped[t] - r.host_budget;
      if (device[t] <= 0 && device_slope[t] < 0) device_slope[t] = 0;
      if (host[t] <= 0 && host_slope[t] < 0) host_slope[t] = 0;
      norm += device_slope[t] * device_slope[t] + host_slope[t] * host_slope[t];
    }
    if (norm <= 0) break;
    const double step = agility * std::max(upper_bound_ns - value, upper_bound_ns * 0.01) / norm;
    for (std::size_t t = 0; t < n; ++t) {
      device[t] = std::max(0.0, device[t] + step * device_slope[t]);
      host[t] = std::max(0.0, host[t] + step * host_slope[t]);
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
    for (std::size_t t = 0; t < prices.clock.size(); ++t)
      if (prices.clock[t] >= gap.free_from && prices.clock[t] < gap.taken_from)
        sum += swap ? std::max(0.0, prices.device[t] - prices.host[t]) : prices.device[t];
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
