#include "planner/decide/flat/bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/decide/flat/gaps.h"
#include "planner/decide/flat/relaxation.h"
#include "planner/decide/gaps/prices.h"

namespace tidemark::decide::flat {
namespace {

/// Rounded in floating point: a millionth less is safe, and costs are whole.
std::int64_t whole_cost(double bound) {
  return static_cast<std::int64_t>(std::ceil(std::max(0.0, bound * (1 - 1e-6) - 1e-6)));
}

}  // namespace

LeastPeak least_peak(const Problem& problem) {
  const gaps::GapProblem gaps = list_gaps(problem, GapUse::bound).problem;
  std::vector<Bytes> bytes = gaps.base_bytes;
  std::vector<Bytes> change(bytes.size() + 1);
  for (const gaps::GapProblem::Gap& gap : gaps.gaps) {
    change[static_cast<std::size_t>(gap.free_from)] -= gap.bytes;
    change[static_cast<std::size_t>(gap.taken_from)] += gap.bytes;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  LeastPeak least;
  for (std::size_t t = 0; t < bytes.size(); ++t) {
    if (bytes[t] + change[t] <= least.bytes) continue;
    least = {.bytes = bytes[t] + change[t], .op = static_cast<std::int32_t>(t)};
  }
  return least;
}

std::int64_t least_added_cost(const Problem& problem, Bytes budget, const std::function<bool()>& should_stop) {
  const gaps::GapProblem gaps = list_gaps(problem, GapUse::bound).problem;
  std::vector<std::int32_t> positions = gaps::positions_above(gaps, budget);
  if (positions.empty()) return 0;
  constexpr double kMostWork = 1e8;
  const double size = static_cast<double>(gaps.gaps.size() + positions.size());
  const int iterations = static_cast<int>(std::clamp(kMostWork / size, 60.0, 5000.0));
  const Bytes host = std::accumulate(gaps.gaps.begin(), gaps.gaps.end(), Bytes{0},
                                     [](Bytes sum, const gaps::GapProblem::Gap& gap) { return sum + gap.bytes; });
  return whole_cost(
      gaps::find_prices(gaps, std::move(positions), budget, host, iterations, nullptr, should_stop).bound);
}

std::int64_t least_added_cost_with_inputs(const Problem& problem, Bytes budget, std::int64_t target,
                                          const std::function<bool()>& should_stop) {
  constexpr std::int64_t kMostCells = 400'000;  // of ops and storages, some 150 bytes each
  constexpr double kMostWork = 2e7, kFewest = 60, kMost = 5000;
  if (static_cast<std::int64_t>(problem.op_count) * problem.storage_count > kMostCells) return 0;
  Relaxation relaxed(problem, budget);
  const double iterations = kMostWork / static_cast<double>(relaxed.size());
  if (iterations < kFewest) return 0;  // too few to come to anything
  relaxed.ascend({.target = static_cast<double>(target),
                  .iterations = static_cast<int>(std::min(iterations, kMost)),
                  .should_stop = should_stop});
  // Prices come to some tens of the cost of all ops, so rounding to far less than a billionth of that.
  constexpr double kRounding = 1e-9;
  return std::min(target, whole_cost(relaxed.bound() - kRounding * static_cast<double>(problem.total_cost())));
}

}  // namespace tidemark::decide::flat
