// Searches for one budget (aimed.h).

#include "planner/decide/flat/aimed.h"

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <atomic>
#include <vector>

#include "planner/decide/flat/plan.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"
#include "tests/support/sanitized.h"

namespace tidemark::decide::flat {
namespace {

using testing::FlatStep;
using testing::ReferenceStep;
using testing::repeated_layers;

ReferenceStep some_step(std::uint64_t seed) {
  const bool swaps = seed % 3 > 0;
  ReferenceStep step = repeated_layers(seed, 6, 8, swaps);
  return seed % 3 == 2 ? testing::with_link(std::move(step), seed, 20) : step;
}

/// A search that folds repeats and aims at one budget is not worse than one for all budgets, which does neither, at the
/// same effort: by a thousandth of the step at most.
TEST(AimedSearch, FitsIsCheckedAndIsNoWorseThanOneForAllBudgets) {
  for (std::uint64_t seed = 0; seed < testing::cases(6U); ++seed) {
    const FlatStep flat(some_step(seed));
    ASSERT_GT(flat.problem.op_count, 100);
    const Bytes keep = keep_all_peak(flat.step);
    for (const Bytes percent : {85, 70, 55}) {
      const Bytes budget = keep * percent / 100;
      const StepPlan aimed = plan_step_within(flat.problem, budget, {.effort = 0.02, .aimed = true});
      const StepPlan all = plan_step_within(flat.problem, budget, {.effort = 0.02});
      ASSERT_TRUE(aimed.fits() || !all.fits()) << seed << " at " << percent;
      if (!aimed.fits()) continue;
      expect_carried_out(flat, aimed.order);
      EXPECT_LE(aimed.outcome.peak_bytes, budget);
      EXPECT_GE(aimed.outcome.added_cost, aimed.lower_bound_cost);
      if (!all.fits()) continue;
      EXPECT_LE(aimed.percent(aimed.outcome.added_cost), aimed.percent(all.outcome.added_cost) + 0.1)
          << seed << " at " << percent;
    }
  }
}

TEST(AimedSearch, DoesNotDependOnTheThreadCount) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const FlatStep flat(some_step(seed));
    const Bytes budget = keep_all_peak(flat.step) * 6 / 10;
    const PlanLimits limits{.effort = 0.005, .aimed = true};
    const StepPlan many = plan_step_within(flat.problem, budget, limits);
    const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
    EXPECT_EQ(plan_step_within(flat.problem, budget, limits).order, many.order) << seed;
  }
}

/// Stopped at once there is a plan that keeps the rules, or none, and nothing is taken for proven.
TEST(AimedSearch, StopsAtOnceWithWhatItHas) {
  int fitting = 0;
  for (std::uint64_t seed = 0; seed < testing::cases(6U); ++seed) {
    const FlatStep flat(some_step(seed));
    const Bytes keep = keep_all_peak(flat.step);
    for (const Bytes percent : {90, 60, 40}) {
      const StepPlan plan =
          plan_step_within(flat.problem, keep * percent / 100, {.aimed = true, .should_stop = [] { return true; }});
      if (plan.fits()) {
        ++fitting;
        EXPECT_LE(plan.outcome.peak_bytes, keep * percent / 100);
        expect_carried_out(flat, plan.order);
      } else {
        EXPECT_TRUE(!plan.proven || keep * percent / 100 < plan.lower_bound_bytes);
      }
    }
  }
  EXPECT_GT(fitting, 0);
}

TEST(AimedSearch, StopsWhenItIsTold) {
  const FlatStep flat(some_step(3));
  std::atomic<int> asked{0};
  const auto stop = [&] { return ++asked > 50; };
  const StepPlan plan = plan_step_within(flat.problem, keep_all_peak(flat.step) * 7 / 10,
                                         {.effort = 1000, .aimed = true, .should_stop = stop});
  EXPECT_TRUE(plan.fits());
  EXPECT_LT(asked, 5000);
}

/// What is told to do does, also where it is asked for in a call of its own.
TEST(AimedSearch, TheLowestPeakToldIsMet) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const FlatStep flat(some_step(seed));
    const PlanLimits limits{.effort = 0.005, .aimed = true};
    const StepPlan none = plan_step_within(flat.problem, 1, limits);
    ASSERT_FALSE(none.fits());
    EXPECT_TRUE(none.proven);
    EXPECT_TRUE(plan_step_within(flat.problem, none.smallest_known_peak, limits).fits()) << seed;
  }
}

TEST(AimedSearch, ProgressRisesToOne) {
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    const FlatStep flat(some_step(seed));
    std::vector<double> told;
    static_cast<void>(
        plan_step_within(flat.problem, keep_all_peak(flat.step) * 6 / 10,
                         {.effort = 0.01, .aimed = true, .on_progress = [&](double share) { told.push_back(share); }}));
    ASSERT_FALSE(told.empty()) << seed;
    EXPECT_TRUE(std::ranges::is_sorted(told)) << seed;
    EXPECT_NEAR(told.back(), 1, 1e-9) << seed;
  }
}

}  // namespace
}  // namespace tidemark::decide::flat
