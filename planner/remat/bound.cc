#include "planner/remat/bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

#include "planner/decision/relaxation.h"

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

/// The covering problem at the ops that are above the budget: each gap, by itself, may be given up at its cost.
Relaxation relax(const Problem& p, const std::vector<Gap>& gaps, const std::vector<Bytes>& kept, Bytes budget) {
  Relaxation r;
  std::vector<std::int32_t> ops;
  for (std::int32_t v = 0; v < p.op_count; ++v) {
    if (kept[at(v)] <= budget) continue;
    ops.push_back(v);
    r.excess.push_back(static_cast<double>(kept[at(v)] - budget));
  }
  for (const Gap& gap : gaps) {
    const auto lo = std::ranges::lower_bound(ops, gap.first), hi = std::ranges::upper_bound(ops, gap.gone_last);
    if (lo >= hi || !std::isfinite(gap.cost)) continue;
    const auto row = static_cast<std::int32_t>(r.gaps.size()), end = static_cast<std::int32_t>(hi - ops.begin());
    r.gaps.push_back({.lo = static_cast<std::int32_t>(lo - ops.begin()),
                      .hi = end,
                      .host_hi = end,
                      .bytes = static_cast<double>(p.bytes[at(gap.storage)]),
                      .swap_cost = gap.cost});
    r.unit_gaps.push_back(row);
    r.units.push_back({.first = row, .count = 1});
    r.host_budget += r.gaps.back().bytes;  // enough for all: host memory is left out
  }
  return r;
}

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
  const Relaxation relaxation = relax(problem, gaps_of(problem), kept, budget);
  double all = 1;  // what giving up every gap costs
  for (const Relaxation::Gap& gap : relaxation.gaps) all += gap.swap_cost;
  constexpr double kMostWork = 1e8;
  const double size = static_cast<double>(relaxation.gaps.size() + relaxation.excess.size());
  const int iterations = static_cast<int>(std::clamp(kMostWork / size, 60.0, 5000.0));
  const double bound = ascend(relaxation, {.least_worth = 1e-8 * all, .most_worth = 1e4 * all}, iterations).bound;
  // Rounded in floating point: a millionth less is safe, and costs are whole.
  return static_cast<std::int64_t>(std::ceil(std::max(0.0, bound * (1 - 1e-6) - 1e-6)));
}

}  // namespace tidemark::remat
