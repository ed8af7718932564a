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

/// Chunks stand in a slot of rows that are sent, which has the mean however few rows the plan counts on.
TEST(AnyLoad, APlanForNextToNoRowPromisesAnyLoad) {
  for (const RankPlan& rank : planned(0.001).ranks) {
    EXPECT_EQ(rank.figures.worst_load_f, 1) << rank.figures.reason;
    EXPECT_EQ(rank.figures.reason, "");
  }
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
