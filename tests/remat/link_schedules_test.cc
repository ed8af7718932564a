// Steps with a link against every choice of pages, and what a link must never make worse.

#include "planner/remat/link_schedules.h"

#include <gtest/gtest.h>

#include <limits>

#include "planner/remat/plan.h"
#include "planner/remat/state.h"
#include "tests/remat/random_list.h"

namespace tidemark::remat {
namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

/// Every set of pages, and every way to time it: the least cost of a schedule without second runs.
class EveryPage {
 public:
  EveryPage(const OpList& list, Bytes budget) : list_(list), budget_(budget), schedule_(keep_all_schedule(list)) {
    for (std::int32_t s = 0; s < std::ssize(list.storages); ++s) {
      if (!list.storages[static_cast<std::size_t>(s)].swappable) continue;
      std::int32_t last = -1;
      for (std::int32_t v = 0; v < std::ssize(list.ops); ++v) {
        const OpList::Op& op = list.ops[static_cast<std::size_t>(v)];
        const bool reads = std::ranges::binary_search(op.reads, s);
        if (!reads && !std::ranges::binary_search(op.writes, s)) continue;
        if (last >= 0 && reads && v > last + 1) holes_.push_back({.storage = s, .after = last, .before = v});
        last = v;
      }
    }
    choose(0);
  }
  [[nodiscard]] std::int64_t least() const { return least_; }
  [[nodiscard]] std::size_t holes() const { return holes_.size(); }

 private:
  void choose(std::size_t hole) {
    if (hole == holes_.size()) {
      const ScheduleReplay replay = replay_schedule(list_, schedule_, {});
      if (replay.fault.empty() && replay.peak_bytes <= budget_) least_ = std::min(least_, replay.added_cost);
      return;
    }
    choose(hole + 1);
    OpSchedule::Swap swap = holes_[hole];
    for (swap.gone = swap.after + 1; swap.gone <= swap.before; ++swap.gone)
      for (swap.back = swap.gone; swap.back <= swap.before; ++swap.back) {
        schedule_.swaps.push_back(swap);
        choose(hole + 1);
        schedule_.swaps.pop_back();
      }
  }

  const OpList& list_;
  Bytes budget_;
  OpSchedule schedule_;
  std::vector<OpSchedule::Swap> holes_;
  std::int64_t least_ = kNone;
};

OpList small_list(std::uint64_t seed) {
  OpList list =
      testing::with_link(testing::forward_and_back(seed, 4, true), seed, 4 + static_cast<std::int32_t>(seed % 30));
  for (OpList::Op& op : list.ops) op.recompute = OpList::Recompute::never;
  for (std::size_t s = 4; s < list.storages.size(); ++s) list.storages[s].swappable = false;
  return list;
}

TEST(LinkSchedules, AgainstEveryChoiceOfPages) {
  int asked = 0, best = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const OpList list = small_list(seed);
    const Bytes keep = replay_schedule(list, keep_all_schedule(list), {}).peak_bytes;
    for (const Bytes budget : {keep - 1, keep * 9 / 10, keep * 3 / 4}) {
      const EveryPage every(list, budget);
      if (every.holes() > 3) continue;
      const StepPlan plan = plan_step_within(list, budget, {}, {.effort = 0.002});
      EXPECT_EQ(plan.fits(), every.least() != kNone) << seed;
      if (!plan.fits()) continue;
      ++asked;
      EXPECT_LE(plan.replay.peak_bytes, budget) << seed;
      EXPECT_GE(plan.replay.added_cost, every.least()) << seed;
      EXPECT_LE(plan.lower_bound_cost, every.least()) << seed;
      best += plan.replay.added_cost == every.least() ? 1 : 0;
      if (plan.status == PlanStatus::optimal) {
        EXPECT_EQ(plan.replay.added_cost, every.least()) << seed;
      }
    }
  }
  EXPECT_GE(asked, 100);
  EXPECT_GE(best, asked * 85 / 100) << asked;
}

/// A link beside the ops is never worse than ops that stop for each copy, nor than runs alone.
TEST(LinkSchedules, NeverWorseThanStoppingForCopies) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const OpList list = testing::with_link(testing::forward_and_back(seed, 10, true), seed, 30);
    OpList stops = list, runs = list;
    stops.link.reset();
    runs.link.reset();
    for (std::size_t s = 0; s < list.storages.size(); ++s) {
      stops.storages[s].page_out_cost += list.storages[s].page_out_time;
      stops.storages[s].page_in_cost += list.storages[s].page_in_time;
      runs.storages[s].swappable = false;
    }
    const Bytes keep = replay_schedule(list, keep_all_schedule(list), {}).peak_bytes;
    for (const Bytes budget : {keep * 9 / 10, keep * 7 / 10}) {
      const StepPlan beside = plan_step_within(list, budget, {}, {.effort = 0.05, .prove_small = false});
      for (const OpList* other : {&stops, &runs}) {
        const StepPlan plan = plan_step_within(*other, budget, {}, {.effort = 0.02, .prove_small = false});
        if (!plan.fits()) continue;
        ASSERT_TRUE(beside.fits()) << seed;
        EXPECT_LE(beside.replay.added_cost, plan.replay.added_cost) << seed;
        better += beside.replay.added_cost < plan.replay.added_cost ? 1 : 0;
      }
    }
  }
  EXPECT_GT(better, 6);
}

TEST(LinkSchedules, HostMemoryHoldsWhatIsPagedOut) {
  int paged = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    OpList list = testing::with_link(testing::forward_and_back(seed, 10, true), seed, 5);
    list.link->host_bytes = 6 + static_cast<Bytes>(seed);
    const Bytes keep = replay_schedule(list, keep_all_schedule(list), {}).peak_bytes;
    const StepPlan plan = plan_step_within(list, keep * 8 / 10, {}, {.effort = 0.02});
    if (!plan.fits()) continue;
    EXPECT_EQ(plan.replay.fault, "");
    EXPECT_LE(plan.replay.host_peak_bytes, list.link->host_bytes) << seed;
    list.link->host_bytes = 0;
    const StepPlan without = plan_step_within(list, keep * 8 / 10, {}, {.effort = 0.01});
    EXPECT_TRUE(!without.fits() || plan.replay.added_cost <= without.replay.added_cost) << seed;
    paged += plan.schedule.swaps.empty() ? 0 : 1;
  }
  EXPECT_GT(paged, 3);
}

/// Host memory for one of two inputs: by the list their lives are apart, by the second runs that read them late they
/// are not, and then one of them is made anew instead.
TEST(LinkSchedules, HostMemoryHoldsWhatSecondRunsReadLate) {
  OpList list{.cost_unit = OpList::CostUnit::ns, .link = OpList::Link{.host_bytes = 100}};
  for (const bool input : {true, true, false, false})
    list.storages.push_back({.bytes = input ? 100 : 60, .swappable = input, .page_out_time = 100, .page_in_time = 100});
  list.ops = {{.cost = 10000, .recompute = OpList::Recompute::never, .writes = {0}},
              {.cost = 10, .reads = {0}, .writes = {2}},
              {.cost = 10000, .reads = {2}},
              {.cost = 5000, .writes = {1}},
              {.cost = 10, .reads = {1}, .writes = {3}},
              {.cost = 10000, .reads = {3}},
              {.cost = 10000, .transient_bytes = 400},
              {.cost = 10000, .reads = {2}},
              {.cost = 10000},
              {.cost = 10000, .reads = {3}}};
  const StepPlan plan = plan_step_within(list, 400, {}, {.effort = 0.05});
  ASSERT_TRUE(plan.fits());
  EXPECT_LE(plan.replay.added_cost, 5000 + 10 + 10 + 200);
  EXPECT_EQ(plan.replay.host_peak_bytes, 100);
}

TEST(LinkSchedules, BudgetsCanBeCompared) {
  const OpList list = testing::with_link(testing::forward_and_back(7, 14, true), 7, 20);
  StepPlanner planner(list, {}, {.effort = 0.05});
  const std::vector<FrontierPoint> frontier = planner.frontier();
  ASSERT_GT(frontier.size(), 3U);
  for (const FrontierPoint& point : frontier) {
    const StepPlan plan = planner.within(point.peak_bytes);
    ASSERT_TRUE(plan.fits());
    EXPECT_EQ(plan.replay.added_cost, point.added_cost);
    EXPECT_EQ(plan.replay.peak_bytes, point.peak_bytes);
  }
  const FrontierPoint& middle = frontier[frontier.size() / 2];
  EXPECT_EQ(plan_step_within(list, middle.peak_bytes, {}, {.effort = 0.05}).replay.added_cost, middle.added_cost);
}

}  // namespace
}  // namespace tidemark::remat
