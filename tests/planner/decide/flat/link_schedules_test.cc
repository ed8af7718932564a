// Steps whose copies take time against every choice of swaps, and what time beside the ops must never make worse.

#include "planner/decide/flat/link_schedules.h"

#include <gtest/gtest.h>

#include <limits>

#include "planner/decide/flat/plan.h"
#include "planner/decide/flat/state.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"
#include "tests/support/sanitized.h"

namespace tidemark::decide::flat {
namespace {

using testing::FlatStep;
using testing::ReferenceReplay;
using testing::ReferenceStep;

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

/// Every set of swaps, and every way to time it: the least cost of a schedule without recomputes.
class EverySwap {
 public:
  EverySwap(const ReferenceStep& step, Bytes budget) : step_(step), budget_(budget), schedule_(keep_all(step)) {
    for (std::int32_t s = 0; s < std::ssize(step.storages); ++s) {
      if (!step.storages[static_cast<std::size_t>(s)].swappable) continue;
      std::int32_t last = -1;
      for (std::int32_t v = 0; v < std::ssize(step.ops); ++v) {
        const ReferenceStep::Op& op = step.ops[static_cast<std::size_t>(v)];
        const bool reads = std::ranges::binary_search(op.reads, s);
        if (!reads && !std::ranges::binary_search(op.writes, s)) continue;
        if (last >= 0 && reads && v > last + 1) gaps_.push_back({.storage = s, .after = last, .before = v});
        last = v;
      }
    }
    choose(0);
  }
  [[nodiscard]] std::int64_t least() const { return least_; }
  [[nodiscard]] std::size_t gaps() const { return gaps_.size(); }

 private:
  void choose(std::size_t gap) {
    if (gap == gaps_.size()) {
      const ReferenceReplay reference = replay(step_, schedule_);
      if (reference.fault.empty() && reference.peak_bytes <= budget_) least_ = std::min(least_, reference.added_cost);
      return;
    }
    choose(gap + 1);
    RunOrder::Swap swap = gaps_[gap];
    for (swap.gone = swap.after + 1; swap.gone <= swap.before; ++swap.gone)
      for (swap.back = swap.gone; swap.back <= swap.before; ++swap.back) {
        schedule_.swaps.push_back(swap);
        choose(gap + 1);
        schedule_.swaps.pop_back();
      }
  }

  const ReferenceStep& step_;
  Bytes budget_;
  RunOrder schedule_;
  std::vector<RunOrder::Swap> gaps_;
  std::int64_t least_ = kNone;
};

ReferenceStep small_step(std::uint64_t seed) {
  ReferenceStep step =
      testing::with_link(testing::forward_and_back(seed, 4, true), seed, 4 + static_cast<std::int32_t>(seed % 30));
  for (ReferenceStep::Op& op : step.ops) op.recompute = ReferenceStep::Recompute::never;
  for (std::size_t s = 4; s < step.storages.size(); ++s) step.storages[s].swappable = false;
  return step;
}

TEST(LinkSchedules, AgainstEveryChoiceOfSwaps) {
  int asked = 0, best = 0;
  for (std::uint64_t seed = 0; seed < testing::cases(160U); ++seed) {
    const FlatStep flat(small_step(seed));
    const Bytes keep = keep_all_peak(flat.step);
    for (const Bytes budget : {keep - 1, keep * 9 / 10, keep * 3 / 4}) {
      const EverySwap every(flat.step, budget);
      if (every.gaps() > 3) continue;
      const StepPlan plan = plan_step_within(flat.problem, budget, {.effort = 0.002});
      EXPECT_EQ(plan.fits(), every.least() != kNone) << seed;
      if (!plan.fits()) continue;
      ++asked;
      EXPECT_LE(plan.outcome.peak_bytes, budget) << seed;
      EXPECT_GE(plan.outcome.added_cost, every.least()) << seed;
      EXPECT_LE(plan.lower_bound_cost, every.least()) << seed;
      best += plan.outcome.added_cost == every.least() ? 1 : 0;
      if (plan.status == PlanStatus::optimal) {
        EXPECT_EQ(plan.outcome.added_cost, every.least()) << seed;
      }
    }
  }
  EXPECT_GE(asked, testing::kSanitized ? 4 : 100);
  EXPECT_GE(best, asked * 85 / 100) << asked;
}

/// Copies beside the ops are never worse than ops that stop for each copy, nor than recomputes alone.
TEST(LinkSchedules, NeverWorseThanStoppingForCopies) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < testing::cases(6U); ++seed) {
    const FlatStep flat(testing::with_link(testing::forward_and_back(seed, 10, true), seed, 30));
    ReferenceStep stops = flat.step, runs = flat.step;
    for (std::size_t s = 0; s < flat.step.storages.size(); ++s) {
      GivenCopies& copies = stops.storages[s].copies;
      copies.out = {.compute = copies.out.compute + copies.out.link};
      copies.in = {.compute = copies.in.compute + copies.in.link};
      runs.storages[s].swappable = false;
    }
    const FlatStep stopping(std::move(stops)), running(std::move(runs));
    const Bytes keep = keep_all_peak(flat.step);
    for (const Bytes budget : {keep * 9 / 10, keep * 7 / 10}) {
      const StepPlan beside = plan_step_within(flat.problem, budget, {.effort = 0.05, .prove_small = false});
      for (const FlatStep* other : {&stopping, &running}) {
        const StepPlan plan = plan_step_within(other->problem, budget, {.effort = 0.02, .prove_small = false});
        if (!plan.fits()) continue;
        ASSERT_TRUE(beside.fits()) << seed;
        EXPECT_LE(beside.outcome.added_cost, plan.outcome.added_cost) << seed;
        better += beside.outcome.added_cost < plan.outcome.added_cost ? 1 : 0;
      }
    }
  }
  EXPECT_GT(better, testing::cases(6));
}

TEST(LinkSchedules, HostMemoryHoldsWhatIsSwappedOut) {
  int swapped = 0;
  for (std::uint64_t seed = 0; seed < testing::cases(12U); ++seed) {
    ReferenceStep step = testing::with_link(testing::forward_and_back(seed, 10, true), seed, 5);
    step.host_bytes = 6 + static_cast<Bytes>(seed);
    const FlatStep flat(step);
    const Bytes keep = keep_all_peak(flat.step);
    const StepPlan plan = plan_step_within(flat.problem, keep * 8 / 10, {.effort = 0.02});
    if (!plan.fits()) continue;
    expect_carried_out(flat, plan.order);
    EXPECT_LE(plan.outcome.host_peak_bytes, step.host_bytes) << seed;
    step.host_bytes = 0;
    const FlatStep no_host(step);
    const StepPlan without = plan_step_within(no_host.problem, keep * 8 / 10, {.effort = 0.01});
    EXPECT_TRUE(!without.fits() || plan.outcome.added_cost <= without.outcome.added_cost) << seed;
    swapped += plan.order.swaps.empty() ? 0 : 1;
  }
  EXPECT_GE(swapped, testing::kSanitized ? 1 : 4);
}

/// Host memory for one of two inputs: by the ops of the step their lives are apart, by the recomputes that read them
/// late they are not, and then one of them is recomputed instead.
TEST(LinkSchedules, HostMemoryHoldsWhatRecomputesReadLate) {
  ReferenceStep step{.host_bytes = 100};
  for (const bool input : {true, true, false, false})
    step.storages.push_back(
        {.bytes = input ? 100 : 60, .swappable = input, .copies = {.out = {.link = 100}, .in = {.link = 100}}});
  step.ops = {{.cost = 10000, .recompute = ReferenceStep::Recompute::never, .writes = {0}},
              {.cost = 10, .reads = {0}, .writes = {2}},
              {.cost = 10000, .reads = {2}},
              {.cost = 5000, .writes = {1}},
              {.cost = 10, .reads = {1}, .writes = {3}},
              {.cost = 10000, .reads = {3}},
              {.cost = 10000, .transient_bytes = 400},
              {.cost = 10000, .reads = {2}},
              {.cost = 10000},
              {.cost = 10000, .reads = {3}}};
  const FlatStep flat(std::move(step));
  const StepPlan plan = plan_step_within(flat.problem, 400, {.effort = 0.05});
  ASSERT_TRUE(plan.fits());
  EXPECT_LE(plan.outcome.added_cost, 5000 + 10 + 10 + 200);
  EXPECT_EQ(plan.outcome.host_peak_bytes, 100);
}

TEST(LinkSchedules, BudgetsCanBeCompared) {
  const FlatStep flat(testing::with_link(testing::forward_and_back(7, 14, true), 7, 20));
  StepPlanner planner(flat.problem, {.effort = 0.05});
  const std::vector<FrontierPoint> frontier = planner.frontier();
  ASSERT_GT(frontier.size(), 3U);
  for (const FrontierPoint& point : frontier) {
    const StepPlan plan = planner.within(point.peak_bytes);
    ASSERT_TRUE(plan.fits());
    EXPECT_EQ(plan.outcome.added_cost, point.added_cost);
    EXPECT_EQ(plan.outcome.peak_bytes, point.peak_bytes);
  }
  const FrontierPoint& middle = frontier[frontier.size() / 2];
  EXPECT_EQ(plan_step_within(flat.problem, middle.peak_bytes, {.effort = 0.05}).outcome.added_cost, middle.added_cost);
}

}  // namespace
}  // namespace tidemark::decide::flat
