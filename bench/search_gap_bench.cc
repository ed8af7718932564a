// Question: how far above the proven least does the search of `plan --graph` end?
// Workload: random steps of 12 to 16 ops, six shapes, with pages and without, at 92, 82 and 72 % of their peak; exact
// answers are kept from the search.
// Bound: the exact path (planner/remat/exact.h), itself held against an integer program in tests. Goal: median 0, worst
// below 2 % of the step's cost with the usual effort. Method: one run; nothing is drawn outside the seeds.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "planner/parallel.h"
#include "planner/remat/exact.h"
#include "planner/remat/plan.h"
#include "tests/remat/random_list.h"

namespace tidemark {
namespace {

constexpr std::int64_t kExactWork = 3'000'000;
constexpr Bytes kPercents[] = {92, 82, 72};

struct Tally {
  std::vector<double> gaps;                    ///< percent of the step's cost
  int missed = 0, none_fits = 0, unknown = 0;  ///< answered by the exact path alone; agreed on; too large for it
};

void compare(const OpList& list, double effort, Tally& tally) {
  const remat::Problem problem(list);
  remat::StepPlanner planner(list, {}, {.effort = effort, .prove_small = false});
  const Bytes keep = replay_schedule(list, keep_all_schedule(list), {}).peak_bytes;
  for (const Bytes percent : kPercents) {
    const Bytes budget = keep * percent / 100;
    const remat::StepPlan plan = planner.within(budget);
    const std::int64_t most = plan.fits() ? plan.replay.added_cost : std::numeric_limits<std::int64_t>::max();
    const std::optional<remat::ExactAnswer> exact = solve_exactly(problem, budget, most, kExactWork);
    if (!exact)
      ++tally.unknown;
    else if (!exact->feasible)
      ++tally.none_fits;
    else if (!plan.fits())
      ++tally.missed;
    else
      tally.gaps.push_back(plan.percent(plan.replay.added_cost - exact->added_cost));
  }
}

Tally tally_of(std::uint64_t seeds, double effort) {
  constexpr std::size_t kKinds = 2 * testing::kSmallSteps;
  std::vector<Tally> parts(seeds * kKinds);
  parallel_for_each(0, parts.size(), [&](std::size_t i) {
    compare(testing::small_step(static_cast<int>(i % kKinds / 2), 5000 + i / kKinds, i % 2 == 1), effort, parts[i]);
  });
  Tally sum;
  for (const Tally& part : parts) {
    sum.gaps.insert(sum.gaps.end(), part.gaps.begin(), part.gaps.end());
    sum.missed += part.missed;
    sum.none_fits += part.none_fits;
    sum.unknown += part.unknown;
  }
  std::ranges::sort(sum.gaps);
  return sum;
}

void print_row(std::uint64_t seeds, double effort) {
  const Tally tally = tally_of(seeds, effort);
  if (tally.gaps.empty()) return;
  const auto at = [&](double share) {
    return tally.gaps[static_cast<std::size_t>(share * static_cast<double>(tally.gaps.size() - 1))];
  };
  fmt::print("{:>6} {:>8} {:>6} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>7} {:>9} {:>8}\n", effort, tally.gaps.size(),
             std::ranges::count(tally.gaps, 0.0), at(0.5), at(0.99), at(0.999), tally.gaps.back(), tally.missed,
             tally.none_fits, tally.unknown);
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 24;
  if (seeds == 0) {
    fmt::print(stderr, "search_gap_bench: '{}' is no number of seeds; give one above 0\n", argv[1]);
    return 2;
  }
  fmt::print("{:>6} {:>8} {:>6} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9} {:>8}\n", "effort", "compared", "equal", "median %",
             "99 %", "99.9 %", "worst %", "missed", "none fits", "unsolved");
  for (const double effort : {0.06, 1.0}) tidemark::print_row(seeds, effort);
  return 0;
}
