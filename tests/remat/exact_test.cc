// The exact path against every schedule there is, and the search against the exact path.

#include "planner/remat/exact.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "planner/remat/plan.h"
#include "tests/remat/random_list.h"

namespace tidemark::remat {
namespace {

using testing::random_list;

constexpr std::int64_t kAnyCost = std::numeric_limits<std::int64_t>::max();

/// Cheapest schedule with at most `most` second runs, by trying every order and replaying it. No pages.
std::int64_t try_all(const OpList& list, Bytes budget, std::size_t most) {
  std::int64_t best = kAnyCost;
  OpSchedule schedule;
  const std::function<void(std::int32_t, std::size_t)> extend = [&](std::int32_t next, std::size_t extra) {
    if (next == static_cast<std::int32_t>(list.ops.size())) {
      const ScheduleReplay replay = replay_schedule(list, schedule, {});
      if (replay.fault.empty() && replay.peak_bytes <= budget) best = std::min(best, replay.added_cost);
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
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const OpList list = random_list(seed, {.ops = 6, .awkward = seed % 3 != 0});
    const Problem problem(list);
    const Bytes keep = replay_schedule(list, keep_all_schedule(list), {}).peak_bytes;
    for (const Bytes budget : {keep - 1, keep - 4, keep - 8}) {
      const std::optional<ExactAnswer> exact = solve_exactly(problem, budget, kAnyCost, 10'000'000);
      ASSERT_TRUE(exact);
      const std::int64_t all = try_all(list, budget, 4);
      if (!exact->feasible) {
        EXPECT_EQ(all, kAnyCost) << seed << " " << budget;
        continue;
      }
      ++feasible;
      const ScheduleReplay replay = replay_schedule(list, exact->schedule, {});
      EXPECT_EQ(replay.fault, "") << seed;
      EXPECT_LE(replay.peak_bytes, budget) << seed << " " << budget;
      EXPECT_EQ(replay.added_cost, exact->added_cost) << seed << " " << budget;
      // More than four second runs may be cheaper than four.
      if (exact->schedule.order.size() <= list.ops.size() + 4)
        EXPECT_EQ(exact->added_cost, all) << seed << " " << budget;
      else
        EXPECT_LE(exact->added_cost, all) << seed << " " << budget;
    }
  }
  EXPECT_GT(feasible, 50);
}

/// How far the search alone is from the best.
struct Distances {
  /// In percent of the step with everything kept.
  std::vector<double> gaps;
  int missed = 0;  ///< it fits, and the search does not see how

  void measure(const OpList& list, Bytes budget, const std::string& what) {
    const Problem problem(list);
    const StepPlan plan = plan_step_within(list, budget, {}, {.effort = 0.06, .prove_small = false});
    const std::optional<ExactAnswer> exact =
        solve_exactly(problem, budget, plan.fits() ? plan.replay.added_cost : kAnyCost, 300'000);
    if (!exact) return;
    if (!exact->feasible) {
      EXPECT_FALSE(plan.fits()) << what;
      return;
    }
    const ScheduleReplay replay = replay_schedule(list, exact->schedule, {});
    ASSERT_EQ(replay.fault, "") << what;
    EXPECT_LE(replay.peak_bytes, budget) << what;
    EXPECT_EQ(replay.added_cost, exact->added_cost) << what;
    EXPECT_LE(plan.lower_bound_cost, exact->added_cost) << what;
    if (!plan.fits()) {
      ++missed;
      return;
    }
    EXPECT_GE(plan.replay.added_cost, exact->added_cost) << what;
    gaps.push_back(plan.percent(plan.replay.added_cost - exact->added_cost));
    if (gaps.back() == 0) return;
    const StepPlan usual = plan_step_within(list, budget, {}, {.prove_small = false});
    EXPECT_LT(usual.percent(usual.replay.added_cost - exact->added_cost), 2) << what;
  }
};

TEST(RematExact, TheSearchIsCloseToTheBest) {
  Distances distances;
  for (std::uint64_t seed = 3000; seed < 3004; ++seed)
    for (int shape = 0; shape < testing::kSmallSteps; ++shape)
      for (const bool pages : {false, true}) {
        const OpList list = testing::small_step(shape, seed, pages);
        const Bytes keep = replay_schedule(list, keep_all_schedule(list), {}).peak_bytes;
        for (const Bytes percent : {92, 82, 72})
          distances.measure(list, keep * percent / 100,
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
  const OpList list = testing::uniform_chain(10);
  const Problem problem(list);
  EXPECT_FALSE(solve_exactly(problem, 4, kAnyCost, 10).has_value());
  EXPECT_FALSE(solve_exactly(Problem(testing::uniform_chain(40)), 9, kAnyCost, 100'000).has_value());
}

}  // namespace
}  // namespace tidemark::remat
