// Up to which load a plan promises every step, and what it names where it promises nothing.

#include "planner/any_load.h"

#include <gtest/gtest.h>

#include "policies/policies.h"
#include "tests/support/pangu.h"

namespace tidemark::plan {
namespace {

PlanOutcome planned(double load, std::optional<Bytes> budget = {}) {
  Result<PlanOutcome> outcome = plan_step({.job = testing::small_job(),
                                           .machine = testing::ascend_910b(),
                                           .policy = policies::find_policy("optimal"),
                                           .budget_bytes = budget,
                                           .load = load});
  EXPECT_TRUE(outcome.ok());
  return outcome.ok() ? std::move(outcome).value() : PlanOutcome{};
}

/// Slots for next to no row hold no row of what stands there at once; those for the load that the plan names do.
TEST(AnyLoad, APlanForTooFewRowsNamesTheLoadThatWouldDo) {
  const PlanOutcome few = planned(0.001);
  double enough = 0;
  for (const RankPlan& rank : few.ranks) {
    EXPECT_TRUE(rank.figures.fits);
    EXPECT_EQ(rank.figures.worst_load_f, 0);
    const AnyLoad said = any_load({.job = testing::small_job(), .machine = testing::ascend_910b()}, rank);
    EXPECT_GT(said.least_load_f, few.ranks.front().figures.load);
    EXPECT_NE(said.reason.find("cannot run in chunks at moe."), std::string::npos) << said.reason;
    EXPECT_NE(said.reason.find("planned for --imbalance 0.0"), std::string::npos) << said.reason;
    EXPECT_EQ(said.reason, rank.figures.reason);
    enough = std::max(enough, said.least_load_f);
  }
  for (const RankPlan& rank : planned(enough).ranks) {
    EXPECT_EQ(rank.figures.worst_load_f, 1) << rank.figures.reason;
    EXPECT_EQ(rank.figures.reason, "");
  }
  bool all = true;
  for (const RankPlan& rank : planned(enough / 2).ranks) all = all && rank.figures.worst_load_f > 0;
  EXPECT_FALSE(all);
}

/// The smallest budget of a plan that does not fit promises what any other does, and a little less does not.
TEST(AnyLoad, TheBudgetThatIsNamedIsEnoughForAnyLoad) {
  const Bytes reserve = reserve_of({.job = testing::small_job(), .machine = testing::ascend_910b()}).total();
  Bytes enough = 0;
  for (const RankPlan& rank : planned(1.2, reserve + kMiB).ranks) {
    EXPECT_FALSE(rank.figures.fits);
    EXPECT_EQ(rank.figures.worst_load_f, 0);
    enough = std::max(enough, rank.figures.smallest_budget_bytes);
  }
  ASSERT_GT(enough, reserve);
  for (const RankPlan& rank : planned(1.2, enough).ranks) EXPECT_EQ(rank.figures.worst_load_f, 1);
  EXPECT_FALSE(planned(1.2, enough - (enough - reserve) / 50).fits());
}

}  // namespace
}  // namespace tidemark::plan
