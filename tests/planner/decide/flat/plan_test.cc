#include "planner/decide/flat/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/planner/decide/flat/chain_cost.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"
#include "tests/support/sanitized.h"

namespace tidemark::decide::flat {
namespace {

using testing::FlatStep;
using testing::random_step;
using testing::ReferenceReplay;
using testing::ReferenceStep;

TEST(PlanStep, FitsAndIsChecked) {
  for (std::uint64_t seed = 0; seed < testing::cases(12U); ++seed) {
    const FlatStep flat(random_step(seed, {.ops = 24, .swaps = seed % 2 == 0, .untold = seed % 3 == 1}));
    const Bytes keep = keep_all_peak(flat.step);
    for (const Bytes budget : {keep, keep * 9 / 10, keep * 7 / 10}) {
      const StepPlan plan = plan_step_within(flat.problem, budget, {.effort = 0.01});
      if (!plan.fits()) {
        EXPECT_GE(plan.smallest_known_peak, budget);
        continue;
      }
      const ReferenceReplay reference = replay(flat.step, plan.order);
      EXPECT_EQ(reference.fault, "") << seed;
      EXPECT_LE(reference.peak_bytes, budget) << seed;
      EXPECT_GE(reference.peak_bytes, plan.lower_bound_bytes) << seed;
      EXPECT_GE(reference.added_cost, plan.lower_bound_cost) << seed;
      expect_carried_out(flat, plan.order);
      if (budget == keep) {
        EXPECT_EQ(plan.order, keep_all(flat.step));
      }
    }
  }
}

TEST(PlanStep, SameBytesEveryTime) {
  const FlatStep flat(random_step(5, {.ops = testing::kSanitized ? 30 : 60, .swaps = true}));
  const Bytes keep = keep_all_peak(flat.step);
  const StepPlan once = plan_step_within(flat.problem, keep * 8 / 10, {.effort = 0.02});
  const StepPlan again = plan_step_within(flat.problem, keep * 8 / 10, {.effort = 0.02});
  EXPECT_EQ(once.order, again.order);
}

TEST(PlanStep, TighterIsNeverCheaperNorHigher) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  for (const std::uint64_t seed : testing::kSanitized ? std::vector{2U} : std::vector{1U, 2U, 3U}) {
    const FlatStep flat(random_step(seed, {.ops = 45, .swaps = seed == 2, .awkward = seed != 3}));
    const Bytes keep = keep_all_peak(flat.step);
    StepPlanner planner(flat.problem, {.effort = 0.01});
    std::int64_t cost = 0;
    Bytes peak = keep;
    int budgets = 0;
    for (Bytes budget = keep; budget > keep / 2; budget -= std::max<Bytes>(1, keep / 40)) {
      const StepPlan plan = planner.within(budget);
      if (++budgets % 6 == 1) {
        EXPECT_EQ(plan_step_within(flat.problem, budget, {.effort = 0.01}).order, plan.order) << "a call of its own";
      }
      if (!plan.fits()) break;
      EXPECT_GE(plan.outcome.added_cost, cost) << seed << " at " << budget;
      EXPECT_LE(plan.outcome.peak_bytes, peak) << seed << " at " << budget;
      cost = plan.outcome.added_cost;
      peak = plan.outcome.peak_bytes;
    }
    EXPECT_GT(cost, 0);
  }
}

/// Passes over an index of what is in memory (more than 600 ops), and nothing but passes (more than 5,000).
TEST(PlanStep, LongStepsFitAndAreChecked) {
  for (const bool training : {false, true})
    for (const std::int32_t ops : {700, 5020}) {
      const FlatStep flat(training
                              ? testing::training_step(3, {.layers = ops / 20, .wide = 10, .degree = 4, .most = 99})
                              : testing::layered_step(3, {.layers = ops / 10, .wide = 10, .degree = 6, .most = 99}));
      const Bytes keep = keep_all_peak(flat.step);
      StepPlanner planner(flat.problem, {.effort = 0.001});
      std::int64_t cost = 0;
      for (const Bytes percent : {98, 95, 75, 60}) {
        if (!training && percent < 95) break;
        const StepPlan plan = planner.within(keep * percent / 100);
        ASSERT_TRUE(plan.fits()) << training << ' ' << ops << " at " << percent;
        expect_carried_out(flat, plan.order);
        EXPECT_LE(plan.outcome.peak_bytes, keep * percent / 100);
        EXPECT_GE(plan.outcome.added_cost, cost);
        EXPECT_LT(plan.percent(plan.outcome.added_cost), training ? 15 : 10) << ops << " at " << percent;
        cost = plan.outcome.added_cost;
      }
    }
}

/// With swaps as well: passes know them, and both together are no worse than the rule is.
TEST(PlanStep, LongStepsWithSwapsFitAndAreChecked) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  for (const std::int32_t ops : testing::kSanitized ? std::vector{700} : std::vector{700, 5020}) {
    const FlatStep flat(
        testing::layered_step(3, {.layers = ops / 10, .wide = 10, .degree = 6, .most = 99, .swaps = true}));
    const Bytes keep = keep_all_peak(flat.step);
    StepPlanner planner(flat.problem, {.effort = 0.001});
    StepPlanner rule(flat.problem, {.rule = StepRule::greedy});
    std::int64_t cost = 0;
    for (const Bytes percent : {98, 95, 90, 80}) {
      const Bytes budget = keep * percent / 100;
      const StepPlan plan = planner.within(budget);
      ASSERT_TRUE(plan.fits()) << ops << " at " << percent;
      expect_carried_out(flat, plan.order);
      EXPECT_FALSE(plan.order.swaps.empty());
      EXPECT_LE(plan.outcome.peak_bytes, budget);
      EXPECT_GE(plan.outcome.added_cost, cost);
      const StepPlan other = rule.within(budget);
      if (other.fits()) {
        EXPECT_LE(plan.outcome.added_cost, other.outcome.added_cost) << ops << " at " << percent;
      }
      cost = plan.outcome.added_cost;
    }
    EXPECT_LT(planner.within(keep * 8 / 10).percent(cost), 10) << ops;
  }
}

/// One of many (chain_test.cc): here also where memory and threads are watched.
TEST(PlanStep, AShortChainEqualsTheClosedForm) {
  const FlatStep flat(testing::uniform_chain(30));
  StepPlanner planner(flat.problem, {.effort = 0.01});
  for (const std::int32_t stored : {2, 4}) {
    const StepPlan plan = planner.within(stored + 2);
    ASSERT_TRUE(plan.fits()) << stored;
    EXPECT_EQ(plan.outcome.added_cost + 29, testing::chain_forward_steps(30, stored)) << stored;
  }
}

/// A share of the work done is told, never less than before, and at the end all of it.
TEST(PlanStep, ProgressRisesToOne) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  for (const bool link : {false, true})
    for (const StepRule rule : {StepRule::optimal, StepRule::greedy}) {
      ReferenceStep step = testing::forward_and_back(5, 20, true);
      if (link) step = testing::with_link(std::move(step), 5, 20);
      const FlatStep flat(std::move(step));
      std::vector<double> told;
      StepPlanner planner(flat.problem,
                          {.rule = rule, .effort = 0.01, .prove_small = false, .on_progress = [&](double share) {
                             told.push_back(share);
                           }});
      static_cast<void>(planner.within(1));  // proven that nothing fits: no more than a first look
      EXPECT_TRUE(told.empty() || link);
      EXPECT_FALSE(planner.frontier().empty());
      ASSERT_FALSE(told.empty());
      EXPECT_TRUE(std::ranges::is_sorted(told));
      EXPECT_NEAR(told.back(), 1, 1e-9);
      if (rule == StepRule::optimal) {
        EXPECT_GT(told.size(), 10);
      }
    }
}

/// Below thirty ops some budgets are too hard to be solved exactly: what is answered for them must go with the rest.
TEST(PlanStep, SolvedExactlyOrNotTighterIsNeverCheaperNorHigher) {
  for (const std::uint64_t seed : {11U, 12U, 13U, 14U}) {
    const FlatStep flat(seed < 13 ? testing::layered_step(seed, {.layers = 7, .wide = 4, .swaps = seed == 12})
                                  : testing::forward_and_back(seed, 13, seed == 14));
    const Bytes keep = keep_all_peak(flat.step);
    StepPlanner planner(flat.problem, {.effort = 0.01});
    std::int64_t cost = 0;
    Bytes peak = keep;
    for (Bytes budget = keep; budget > keep / 2; --budget) {
      const StepPlan plan = planner.within(budget);
      if (!plan.fits()) continue;
      EXPECT_GE(plan.outcome.added_cost, cost) << seed << " at " << budget;
      EXPECT_LE(plan.outcome.peak_bytes, peak) << seed << " at " << budget;
      EXPECT_GE(plan.outcome.added_cost, plan.lower_bound_cost) << seed << " at " << budget;
      cost = plan.outcome.added_cost;
      peak = plan.outcome.peak_bytes;
      if (budget % 16 == 0) {
        EXPECT_EQ(plan_step_within(flat.problem, budget, {.effort = 0.01}).order, plan.order) << "a call of its own";
      }
    }
    EXPECT_GT(cost, 0);
  }
}

/// Layers of ten ops that each read five storages, near and far: every recompute wants much that is gone.
TEST(PlanStep, LayeredStepsFitAtALowCostWithLittleEffort) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  std::mt19937_64 random(1);
  ReferenceStep step{.name = "layered"};
  for (std::int32_t v = 0; v < 300; ++v) {
    step.storages.push_back({.name = std::to_string(v), .bytes = 1 + testing::draw(random, 99)});
    ReferenceStep::Op op{.name = std::to_string(v), .cost = 1 + testing::draw(random, 99), .writes = {v}};
    for (int i = 0; v >= 10 && i < 5; ++i)
      op.reads.push_back(testing::draw(random, 4) == 0 ? testing::draw(random, v) : v - 1 - testing::draw(random, 10));
    std::ranges::sort(op.reads);
    op.reads.erase(std::unique(op.reads.begin(), op.reads.end()), op.reads.end());
    step.ops.push_back(std::move(op));
  }
  const FlatStep flat(std::move(step));
  const Bytes keep = keep_all_peak(flat.step);
  const StepPlan plan = plan_step_within(flat.problem, keep * 9 / 10, {.effort = 0.005});
  ASSERT_TRUE(plan.fits());
  EXPECT_LE(plan.percent(plan.outcome.added_cost), 15);
}

TEST(PlanStep, BelowTheLeastPeakIsProvenInfeasible) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  const FlatStep flat(random_step(4, {.ops = 20}));
  const StepPlan plan = plan_step_within(flat.problem, 1);
  EXPECT_FALSE(plan.fits());
  EXPECT_TRUE(plan.proven);
  EXPECT_GE(plan.smallest_known_peak, plan.lower_bound_bytes);
  EXPECT_TRUE(plan_step_within(flat.problem, plan.smallest_known_peak).fits());
}

}  // namespace
}  // namespace tidemark::decide::flat
