#include "planner/remat/bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

namespace tidemark::remat {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// An idle stretch with everything kept: ops strictly between two touches.
struct Gap {
  std::int32_t storage = 0;
  std::int32_t first = 0, last = 0;  ///< ops that it spans; first <= last
  std::int32_t gone_last = -1;       ///< it may be absent at first .. gone_last
  double cost = 0;                   ///< at least, if absent anywhere
};

/// What being absent costs at least; nothing: it cannot be had back.
std::optional<Gap> gap_of(const Problem& p, std::int32_t s, Key from, Key until, std::size_t gaps_of_storage) {
  Gap gap{.storage = s, .first = stage_of(from) + 1, .last = stage_of(until) - 1};
  if (gap.first > gap.last) return std::nullopt;
  const std::int32_t v = p.producer[at(s)];
  double cost = INFINITY;
  if (v >= 0) {
    // A rerun in a stage from t + 1 to `until` brings it back for `until`.
    const std::int32_t latest = std::min(p.rerun_until[at(v)], stage_of(until));
    if (latest >= std::max(p.rerun_from[at(v)], gap.first + 1)) {
      gap.gone_last = std::min(gap.last, latest - 1);
      cost = static_cast<double>(p.cost[at(v)]) / static_cast<double>(p.writes[v].size());
    }
  }
  const bool reads = std::ranges::binary_search(p.reads[op_of(until)], s);
  if (p.swappable[at(s)] != 0 && reads && from >= p.hold_until[at(s)]) {
    gap.gone_last = gap.last;
    cost = std::min(cost, static_cast<double>(p.page_in[at(s)]) +
                              static_cast<double>(p.page_out[at(s)]) / static_cast<double>(gaps_of_storage));
  }
  gap.cost = cost;
  return gap;
}

std::vector<Gap> gaps_of(const Problem& p) {
  std::vector<Gap> gaps;
  for (std::int32_t s = 0; s < p.storage_count; ++s) {
    if (p.bytes[at(s)] == 0) continue;
    Key from = p.begin[at(s)];
    for (const Key use : p.uses[at(s)]) {
      if (use <= from) continue;
      if (const auto gap = gap_of(p, s, from, use, p.uses[at(s)].size())) gaps.push_back(*gap);
      from = use;
    }
  }
  return gaps;
}

/// Bytes at every op with everything kept.
std::vector<Bytes> kept_bytes(const Problem& p) {
  std::vector<Bytes> bytes(at(p.op_count) + 1);
  for (std::int32_t s = 0; s < p.storage_count; ++s) {
    const Key end = p.uses[at(s)].empty() ? p.begin[at(s)] : std::max(p.begin[at(s)], p.uses[at(s)].back());
    bytes[at(stage_of(p.begin[at(s)]))] += p.bytes[at(s)];
    bytes[at(stage_of(end)) + 1] -= p.bytes[at(s)];
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back();
  for (std::int32_t v = 0; v < p.op_count; ++v) bytes[at(v)] += p.transient[at(v)];
  return bytes;
}

/// Subgradient ascent on the prices of memory, with a step of its own per op (Adam).
class Ascent {
 public:
  Ascent(const Problem& p, const std::vector<Gap>& gaps, std::vector<Bytes> kept, Bytes budget)
      : p_(p),
        kept_(std::move(kept)),
        budget_(budget),
        price_(kept_.size()),
        slope_(kept_.size()),
        speed_(kept_.size()),
        swing_(kept_.size()),
        sum_(kept_.size() + 1) {
    for (const Gap& gap : gaps)
      if (gap.gone_last >= gap.first && std::isfinite(gap.cost)) gaps_.push_back(gap);
  }

  double run(int iterations) {
    double best = 0;
    std::vector<double> best_price = price_;
    const double unit = unit_price();
    for (int i = 0; i < iterations; ++i) {
      const double bound = look();
      if (bound > best) {
        best = bound;
        best_price = price_;
      } else if (i % 64 == 63) {
        price_ = best_price;
      }
      step(unit * std::pow(0.003, static_cast<double>(i) / iterations), i + 1);
    }
    return best;
  }

 private:
  /// The bound at the present prices, and its slope in each.
  double look() {
    for (std::size_t t = 0; t < price_.size(); ++t) sum_[t + 1] = sum_[t] + price_[t];
    std::vector<double>& change = swing_now_;
    change.assign(price_.size() + 1, 0);
    double bound = 0;
    for (const Gap& gap : gaps_) {
      const auto bytes = static_cast<double>(p_.bytes[at(gap.storage)]);
      const double value = bytes * (sum_[at(gap.gone_last) + 1] - sum_[at(gap.first)]);
      if (value <= gap.cost) continue;
      bound += gap.cost - value;
      change[at(gap.first)] -= bytes;
      change[at(gap.gone_last) + 1] += bytes;
    }
    double gone = 0;
    for (std::size_t t = 0; t < price_.size(); ++t) {
      gone += change[t];
      const auto above = static_cast<double>(kept_[t] - budget_);
      bound += price_[t] * above;
      slope_[t] = above + gone;
    }
    return bound;
  }

  /// A price at which a typical gap is worth its cost.
  [[nodiscard]] double unit_price() const {
    std::vector<double> prices;
    for (const Gap& gap : gaps_)
      if (gap.cost > 0)
        prices.push_back(gap.cost / static_cast<double>(p_.bytes[at(gap.storage)]) /
                         static_cast<double>(gap.gone_last - gap.first + 1));
    if (prices.empty()) return 0;
    const auto middle = prices.begin() + std::ssize(prices) / 2;
    std::nth_element(prices.begin(), middle, prices.end());
    return *middle;
  }

  void step(double rate, int round) {
    constexpr double kSlow = 0.9, kSlower = 0.99;
    const double first = 1 - std::pow(kSlow, round), second = 1 - std::pow(kSlower, round);
    for (std::size_t t = 0; t < price_.size(); ++t) {
      if (kept_[t] <= budget_) continue;
      const double slope = slope_[t] / static_cast<double>(std::max<Bytes>(budget_, 1));
      speed_[t] = kSlow * speed_[t] + (1 - kSlow) * slope;
      swing_[t] = kSlower * swing_[t] + (1 - kSlower) * slope * slope;
      const double by = rate * (speed_[t] / first) / (std::sqrt(swing_[t] / second) + 1e-12);
      price_[t] = std::max(0.0, price_[t] + by);
    }
  }

  const Problem& p_;
  std::vector<Gap> gaps_;
  std::vector<Bytes> kept_;
  Bytes budget_;
  std::vector<double> price_, slope_, speed_, swing_, sum_, swing_now_;
};

}  // namespace

LeastPeak least_peak(const Problem& problem) {
  std::vector<Bytes> bytes = kept_bytes(problem);
  std::vector<Bytes> change(bytes.size() + 1);
  for (const Gap& gap : gaps_of(problem)) {
    if (gap.gone_last < gap.first) continue;
    change[at(gap.first)] -= problem.bytes[at(gap.storage)];
    change[at(gap.gone_last) + 1] += problem.bytes[at(gap.storage)];
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  LeastPeak least;
  for (std::size_t t = 0; t < bytes.size(); ++t) {
    if (bytes[t] + change[t] <= least.bytes) continue;
    least = {.bytes = bytes[t] + change[t], .op = static_cast<std::int32_t>(t)};
  }
  return least;
}

std::int64_t least_added_cost(const Problem& problem, Bytes budget) {
  std::vector<Bytes> kept = kept_bytes(problem);
  if (std::ranges::max(kept) <= budget) return 0;
  const std::vector<Gap> gaps = gaps_of(problem);
  constexpr double kMostWork = 4e7;
  const double size = static_cast<double>(gaps.size() + kept.size());
  const int iterations = static_cast<int>(std::clamp(kMostWork / size, 60.0, 1500.0));
  const double bound = Ascent(problem, gaps, std::move(kept), budget).run(iterations);
  // Rounded in floating point: a millionth less is safe, and costs are whole.
  return static_cast<std::int64_t>(std::ceil(std::max(0.0, bound * (1 - 1e-6) - 1e-6)));
}

}  // namespace tidemark::remat
