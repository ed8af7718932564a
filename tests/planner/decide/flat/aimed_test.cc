// Searches for one budget (aimed.h): what they come to, when they stop, and what they tell.

#include "planner/decide/flat/aimed.h"

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <vector>

#include "planner/decide/flat/bound.h"
#include "planner/decide/flat/plan.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/network_steps.h"
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

/// Copies that cost nothing are no reason to copy what might as well be kept: not much more than what is missing.
TEST(AimedSearch, CopiesLittleMoreThanItMustWhereCopiesAreFree) {
  for (const std::uint64_t seed : {0U, 1U, 2U, 3U}) {
    ReferenceStep step = repeated_layers(seed, 8, 8, true);
    for (ReferenceStep::Storage& row : step.storages) {
      row.swappable = true;
      row.copies = {};
      row.copies.out.link = row.copies.in.link = static_cast<std::int64_t>(seed % 2);
    }
    step.storages.front().copies.out.link = 1;  // there is a link
    const FlatStep flat(std::move(step));
    const Bytes keep = keep_all_peak(flat.step), budget = keep * 85 / 100;
    const StepPlan plan = plan_step_within(flat.problem, budget, {.effort = 0.02, .aimed = true});
    ASSERT_TRUE(plan.fits()) << seed;
    expect_carried_out(flat, plan.order);
    EXPECT_EQ(plan.outcome.added_cost, 0) << seed;
    Bytes copied = 0;
    for (const RunOrder::Swap& swap : plan.order.swaps)
      copied += flat.step.storages[static_cast<std::size_t>(swap.storage)].bytes;
    EXPECT_LE(copied, 2 * (keep - budget)) << seed;
  }
}

/// What a short network adds is proven; a schedule below it, or one that fits where none does, would be a fault.
TEST(AimedSearch, ProvesWhatShortNetworksAdd) {
  int optimal = 0, infeasible = 0;
  for (const ReferenceStep& step :
       {testing::segnet_step("segnet", {2, 2, 3}), testing::vgg_step("vgg", {2, 2, 2}), testing::unet_step(2)}) {
    const FlatStep flat(step);
    const Bytes keep = keep_all_peak(flat.step);
    for (const Bytes percent : {90, 75, 60}) {
      const Bytes budget = keep * percent / 100;
      const StepPlan plan = plan_step_within(flat.problem, budget, {.effort = 0.05, .aimed = true});
      if (!plan.fits()) {
        EXPECT_TRUE(plan.proven) << step.name << " at " << percent;
        ++infeasible;
        continue;
      }
      ++optimal;
      EXPECT_EQ(plan.status, PlanStatus::optimal) << step.name << " at " << percent;
      EXPECT_EQ(plan.lower_bound_cost, plan.outcome.added_cost);
      expect_carried_out(flat, plan.order);
      EXPECT_LE(plan.outcome.peak_bytes, budget);
      // Other work finds nothing cheaper.
      const StepPlan all = plan_step_within(flat.problem, budget, {.effort = 0.01});
      if (!all.fits()) continue;
      EXPECT_GE(all.outcome.added_cost, plan.outcome.added_cost) << step.name << " at " << percent;
    }
  }
  EXPECT_GE(optimal, 4);
  EXPECT_GE(infeasible, 1);
}

/// Each better schedule is told once, the last is the answer or is bettered by it.
TEST(AimedSearch, TellsWhatIsBetter) {
  const FlatStep flat(some_step(1));
  std::vector<std::int64_t> told;
  PlanLimits limits{.effort = 0.02, .aimed = true};
  limits.on_better = [&](std::int64_t added, std::int64_t bound) {
    EXPECT_LE(bound, added);
    told.push_back(added);
  };
  const StepPlan plan = plan_step_within(flat.problem, keep_all_peak(flat.step) * 7 / 10, limits);
  ASSERT_TRUE(plan.fits());
  ASSERT_FALSE(told.empty());
  for (std::size_t i = 1; i < told.size(); ++i) EXPECT_LT(told[i], told[i - 1]);
  EXPECT_GE(told.back(), plan.outcome.added_cost);
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

/// Whenever that is.
TEST(AimedSearch, StoppedOnTheWayItKeepsTheRules) {
  for (std::uint64_t seed = 0; seed < testing::cases(3U); ++seed) {
    const FlatStep flat(some_step(seed));
    const Bytes budget = keep_all_peak(flat.step) * 6 / 10;
    for (const int most : {1, 3, 10, 30, 100, 300, 1000, 3000}) {
      std::atomic<int> asked{0};
      const StepPlan plan = plan_step_within(
          flat.problem, budget, {.effort = 0.02, .aimed = true, .should_stop = [&] { return ++asked > most; }});
      ASSERT_TRUE(plan.fits() || !plan.proven) << seed << " after " << most;
      if (!plan.fits()) continue;
      EXPECT_LE(plan.outcome.peak_bytes, budget) << seed << " after " << most;
      EXPECT_LE(plan.lower_bound_cost, plan.outcome.added_cost) << seed << " after " << most;
      expect_carried_out(flat, plan.order);
    }
  }
}

/// A long chain and the way back.
ReferenceStep long_step(std::int32_t layers) {
  ReferenceStep step{.name = "long"};
  for (std::int32_t v = 0; v < 2 * layers; ++v) {
    const std::int32_t of = std::min(v, 2 * layers - 1 - v);
    step.storages.push_back({.name = "s", .bytes = 1 + of * 37 % 50});
    ReferenceStep::Op op{.name = "o", .cost = 100 + of * 91 % 800, .writes = {v}};
    if (v > 0) op.reads.push_back(v - 1);
    if (v > layers) op.reads.push_back(of);
    if (v >= layers) {
      op.phase = OpPhase::backward;
      op.recompute = ReferenceStep::Recompute::never;
    }
    testing::sort_once_each(op.reads);
    step.ops.push_back(std::move(op));
  }
  return step;
}

double processor_seconds(const auto& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

/// Nothing large is left that does not ask: all of it takes less than a part of what a bound does that is not stopped.
TEST(AimedSearch, StoppedAtOnceALongStepTakesLittle) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  const FlatStep flat(long_step(3000));
  const Bytes keep = keep_all_peak(flat.step);
  const double bound = processor_seconds([&] { static_cast<void>(least_added_cost(flat.problem, keep * 60 / 100)); });
  for (const Bytes percent : {60, 15}) {
    StepPlan plan;
    const double stopped = processor_seconds([&] {
      plan = plan_step_within(flat.problem, keep * percent / 100, {.aimed = true, .should_stop = [] { return true; }});
    });
    EXPECT_TRUE(plan.fits()) << percent;
    EXPECT_LT(stopped, bound / 2) << percent;
  }
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
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const FlatStep flat(some_step(seed));
    const PlanLimits limits{.effort = 0.005, .aimed = true};
    const StepPlan none = plan_step_within(flat.problem, 1, limits);
    ASSERT_FALSE(none.fits());
    EXPECT_TRUE(none.proven);
    EXPECT_TRUE(plan_step_within(flat.problem, none.smallest_known_peak, limits).fits()) << seed;
  }
}

/// Where a first look or a search for all budgets follows as well; 1 is told when nothing is left to search.
TEST(AimedSearch, ProgressNeverFallsWhereItIsTight) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  int tight = 0;
  for (const std::uint64_t seed : {0U, 3U}) {
    const FlatStep flat(testing::random_step(seed, {.ops = 150}));
    const Bytes lowest = plan_step_within(flat.problem, 1, {.effort = 0.02, .aimed = true}).smallest_known_peak;
    for (const Bytes percent : {100, 102}) {
      std::vector<double> told;
      std::atomic<int> asked{0};
      int asked_before_end = -1;
      PlanLimits limits{.effort = 0.02, .aimed = true};
      limits.should_stop = [&] { return ++asked < 0; };
      limits.on_progress = [&](double share) {
        if (share >= 1 && asked_before_end < 0) asked_before_end = asked;
        told.push_back(share);
      };
      static_cast<void>(plan_step_within(flat.problem, lowest * percent / 100, limits));
      EXPECT_TRUE(std::ranges::is_sorted(told)) << seed << " at " << percent;
      EXPECT_EQ(asked, asked_before_end) << seed << " at " << percent << ": searched on when all was told to be done";
      tight += std::ranges::count_if(told, [](double share) { return share > 0.5 && share < 1; }) > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(tight, 0);
}

/// Also where further budgets are asked for, as where addresses take more than the bytes alive.
TEST(AimedSearch, ProgressNeverFallsFromOneBudgetToTheNext) {
  for (const std::uint64_t seed : {1U, 2U}) {  // without a link and with one
    const FlatStep flat(some_step(seed));
    std::vector<double> told;
    StepPlanner planner(flat.problem,
                        {.effort = 0.005, .aimed = true, .on_progress = [&](double share) { told.push_back(share); }});
    for (const Bytes percent : {60, 59, 58})
      static_cast<void>(planner.within(keep_all_peak(flat.step) * percent / 100));
    EXPECT_TRUE(std::ranges::is_sorted(told)) << seed;
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
