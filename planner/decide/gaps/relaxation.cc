#include "planner/decide/gaps/relaxation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/decision.h"

namespace tidemark::decide::gaps {
namespace {

constexpr double kMomentum = 0.9, kMemory = 0.99;
// Steps relative to the best uniform price, shrinking geometrically. Larger last steps oscillate, smaller first ones
// stop short.
constexpr double kFirstStep = 4, kLastStep = 0.02, kWarmStep = 0.15;
constexpr std::size_t kAskEvery = 100'000;  // gaps and positions: about a millisecond

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
    double recompute = unit.recompute_cost, swap = 0;
    for (std::int32_t i = 0; i < unit.count; ++i) {
      const auto& gap = r.gaps[static_cast<std::size_t>(rows[i])];
      const auto lo = static_cast<std::size_t>(gap.lo), hi = static_cast<std::size_t>(gap.hi);
      const double worth = gap.bytes * (sum[hi] - sum[lo]);
      recompute -= worth;
      const double swapped =
          gap.swap_cost < 0
              ? 0.0
              : gap.swap_cost - worth + gap.bytes * (host_sum[static_cast<std::size_t>(gap.host_hi)] - host_sum[lo]);
      m.action[static_cast<std::size_t>(rows[i])] = swapped < 0 ? Action::swap : Action::keep;
      swap += std::min(0.0, swapped);
    }
    const bool take_recompute = unit.recompute_cost >= 0 && recompute < swap;
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
double best_uniform_price(const Relaxation& r, const AscentStart& start, Minimiser& m) {
  const std::size_t n = r.excess.size();
  const double total = std::accumulate(r.excess.begin(), r.excess.end(), 0.0);
  std::vector<double> prices{0};  // in steps of a third
  for (double price = start.least_worth / total; price < start.most_worth / total; price *= 1.33)
    prices.push_back(price);
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

/// At which the middle unit of those that cost something is worth its cost.
double typical_price(const Relaxation& r) {
  std::vector<double> prices;
  for (const Relaxation::Unit& unit : r.units) {
    double room = 0, cost = unit.recompute_cost;
    for (std::int32_t i = 0; i < unit.count; ++i) {
      const auto& gap = r.gaps[static_cast<std::size_t>(r.unit_gaps[static_cast<std::size_t>(unit.first + i)])];
      room += gap.bytes * static_cast<double>(gap.hi - gap.lo);
      if (gap.swap_cost >= 0 && (cost < 0 || gap.swap_cost < cost)) cost = gap.swap_cost;
    }
    if (cost > 0 && room > 0) prices.push_back(cost / room);
  }
  if (prices.empty()) return 0;
  const auto middle = prices.begin() + std::ssize(prices) / 2;
  std::nth_element(prices.begin(), middle, prices.end());
  return *middle;
}

/// Averages the minimisers seen so far into a fractional plan.
void average(const Minimiser& m, float weight, Ascent& ascent) {
  for (std::size_t g = 0; g < m.action.size(); ++g) {
    ascent.recompute_share[g] +=
        weight * ((m.action[g] == Action::recompute ? 1.0F : 0.0F) - ascent.recompute_share[g]);
    ascent.swap_share[g] += weight * ((m.action[g] == Action::swap ? 1.0F : 0.0F) - ascent.swap_share[g]);
  }
}

}  // namespace

Ascent ascend(const Relaxation& relaxation, const AscentStart& start, int iterations,
              const std::function<bool()>& should_stop) {
  const Relaxation& r = relaxation;
  const std::size_t n = r.excess.size();
  Ascent best{.device = std::vector<double>(n, 0),
              .host = std::vector<double>(n, 0),
              .recompute_share = std::vector<float>(r.gaps.size(), 0),
              .swap_share = std::vector<float>(r.gaps.size(), 0)};
  if (n == 0) return best;
  Minimiser m;
  m.action.assign(r.gaps.size(), Action::keep);
  std::vector<double> device(n, 0), host(n, 0);
  const bool cold = start.device.empty();
  if (cold) {
    std::fill(device.begin(), device.end(), best_uniform_price(r, start, m));
  } else {
    device = start.device;
    host = start.host;
  }

  // Adam (Kingma and Ba 2015) on the subgradient: prices of neighbouring positions differ by orders of magnitude, so
  // every coordinate needs a step of its own.
  double scale = std::max(std::accumulate(device.begin(), device.end(), 0.0) / static_cast<double>(n), 1e-12);
  if (cold && device.front() <= 0) scale = std::max(scale, typical_price(r));
  const double first_step = cold ? kFirstStep : kFirstStep * kWarmStep;
  std::vector<double> mean(2 * n, 0), square(2 * n, 0);
  double decay1 = 1, decay2 = 1;
  std::size_t unasked = 0;
  for (int i = 0; i < iterations; ++i) {
    unasked += r.gaps.size() + n;
    if (unasked >= kAskEvery && should_stop) {
      if (should_stop()) break;
      unasked = 0;
    }
    const double value = lagrangian(r, device, host, m);
    average(m, std::max(0.02F, 1.0F / static_cast<float>(i + 1)), best);
    if (value > best.bound) {
      best.bound = value;
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

}  // namespace tidemark::decide::gaps
