// The exact path against every schedule there is, and the search against the exact path.

#include "planner/decide/flat/exact.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "planner/decide/flat/plan.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"

namespace tidemark::decide::flat {
namespace {

using testing::FlatStep;
using testing::random_step;
using testing::ReferenceReplay;
using testing::ReferenceStep;

constexpr std::int64_t kAnyCost = std::numeric_limits<std::int64_t>::max();

/// Cheapest schedule with at most `most` recomputes, by trying every order and replaying it. No swaps.
std::int64_t try_all(const ReferenceStep& step, Bytes budget, std::size_t most) {
  std::int64_t best = kAnyCost;
  RunOrder schedule;
  const std::function<void(std::int32_t, std::size_t)> extend = [&](std::int32_t next, std::size_t extra) {
    if (next == static_cast<std::int32_t>(step.ops.size())) {
      const ReferenceReplay reference = replay(step, schedule);
      if (reference.fault.empty() && reference.peak_bytes <= budget) best = std::min(best, reference.added_cost);
      return;
    }
    schedule.order.push_back(next);
    extend(next + 1, extra);
    for (std::int32_t v = 0; v < next && extra < most; ++v) {
      schedule.order.back() = v;
      extend(next, extra + 1);
    }
    schedule.order.pop_back();
  };
  extend(0, 0);
  return best;
}

TEST(RematExact, EqualsTryingEverything) {
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < 240; ++seed) {
    const FlatStep flat(random_step(seed, {.ops = 6, .awkward = seed % 3 != 0, .untold = seed >= 120}));
    const Bytes keep = keep_all_peak(flat.step);
    for (const Bytes budget : {keep - 1, keep - 4, keep - 8}) {
      const std::optional<ExactAnswer> exact = solve_exactly(flat.problem, budget, kAnyCost, 10'000'000);
      ASSERT_TRUE(exact);
      const std::int64_t all = try_all(flat.step, budget, 4);
      if (!exact->feasible) {
        EXPECT_EQ(all, kAnyCost) << seed << " " << budget;
        continue;
      }
      ++feasible;
      const ReferenceReplay reference = replay(flat.step, exact->schedule);
      EXPECT_EQ(reference.fault, "") << seed;
      EXPECT_LE(reference.peak_bytes, budget) << seed << " " << budget;
      EXPECT_EQ(reference.added_cost, exact->added_cost) << seed << " " << budget;
      expect_carried_out(flat, exact->schedule);
      // More than four recomputes may be cheaper than four.
      if (exact->schedule.order.size() <= flat.step.ops.size() + 4)
        EXPECT_EQ(exact->added_cost, all) << seed << " " << budget;
      else
        EXPECT_LE(exact->added_cost, all) << seed << " " << budget;
    }
  }
  EXPECT_GT(feasible, 90);
}

/// How far the search alone is from the best.
struct Distances {
  /// In percent of the step with everything kept.
  std::vector<double> gaps;
  int missed = 0;  ///< it fits, and the search does not see how

  void measure(const FlatStep& flat, Bytes budget, const std::string& what) {
    const StepPlan plan = plan_step_within(flat.problem, budget, {.effort = 0.06, .prove_small = false});
    const std::optional<ExactAnswer> exact =
        solve_exactly(flat.problem, budget, plan.fits() ? plan.outcome.added_cost : kAnyCost, 300'000);
    if (!exact) return;
    if (!exact->feasible) {
      EXPECT_FALSE(plan.fits()) << what;
      return;
    }
    const ReferenceReplay reference = replay(flat.step, exact->schedule);
    ASSERT_EQ(reference.fault, "") << what;
    EXPECT_LE(reference.peak_bytes, budget) << what;
    EXPECT_EQ(reference.added_cost, exact->added_cost) << what;
    expect_carried_out(flat, exact->schedule);
    EXPECT_LE(plan.lower_bound_cost, exact->added_cost) << what;
    if (!plan.fits()) {
      ++missed;
      return;
    }
    EXPECT_GE(plan.outcome.added_cost, exact->added_cost) << what;
    gaps.push_back(plan.percent(plan.outcome.added_cost - exact->added_cost));
    if (gaps.back() == 0) return;
    const StepPlan usual = plan_step_within(flat.problem, budget, {.prove_small = false});
    EXPECT_LT(usual.percent(usual.outcome.added_cost - exact->added_cost), 2) << what;
  }
};

TEST(RematExact, TheSearchIsCloseToTheBest) {
  Distances distances;
  for (std::uint64_t seed = 3000; seed < 3004; ++seed)
    for (int shape = 0; shape < testing::kSmallSteps; ++shape)
      for (const bool swaps : {false, true}) {
        const FlatStep flat(testing::small_step(shape, seed, swaps));
        const Bytes keep = keep_all_peak(flat.step);
        for (const Bytes percent : {92, 82, 72})
          distances.measure(flat, keep * percent / 100,
                            "seed " + std::to_string(seed) + " shape " + std::to_string(shape));
        if (::testing::Test::HasFatalFailure()) return;
      }
  std::vector<double>& gaps = distances.gaps;
  std::ranges::sort(gaps);
  ASSERT_GT(gaps.size(), 60U);
  RecordProperty("compared", static_cast<int>(gaps.size()));
  RecordProperty("missed", distances.missed);
  RecordProperty("above_the_best", static_cast<int>(std::ranges::count_if(gaps, [](double gap) { return gap > 0; })));
  RecordProperty("worst_in_thousandths", static_cast<int>(gaps.back() * 1000));
  // With a sixteenth of the usual work; what is above the best then is looked at with all of it.
  EXPECT_EQ(distances.missed, 0);
  EXPECT_EQ(gaps[gaps.size() * 95 / 100], 0);
  EXPECT_LE(std::ranges::count_if(gaps, [](double gap) { return gap >= 2; }), 1);
  EXPECT_LT(gaps.back(), 3);
}

TEST(RematExact, NothingBeyondItsLimits) {
  const FlatStep flat(testing::uniform_chain(10));
  EXPECT_FALSE(solve_exactly(flat.problem, 4, kAnyCost, 10).has_value());
  EXPECT_FALSE(solve_exactly(FlatStep(testing::uniform_chain(40)).problem, 9, kAnyCost, 100'000).has_value());
}

}  // namespace
}  // namespace tidemark::decide::flat
