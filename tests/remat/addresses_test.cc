// Addresses of plans: nothing shares bytes, and the budget holds for them.

#include "planner/remat/addresses.h"

#include <gtest/gtest.h>

#include "planner/remat/plan.h"
#include "tests/remat/random_list.h"

namespace tidemark::remat {
namespace {

void expect_apart(const StepAddresses& addresses) {
  for (std::size_t i = 0; i < addresses.residencies.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      const StepResidency &a = addresses.residencies[i], &b = addresses.residencies[k];
      if (a.end <= b.begin || b.end <= a.begin) continue;
      EXPECT_TRUE(addresses.offsets[i] + a.bytes <= addresses.offsets[k] ||
                  addresses.offsets[k] + b.bytes <= addresses.offsets[i]);
    }
  for (std::size_t i = 0; i < addresses.residencies.size(); ++i)
    EXPECT_LE(addresses.offsets[i] + addresses.residencies[i].bytes, addresses.height_bytes);
}

TEST(RematAddresses, TheBudgetHoldsForThem) {
  int fed_back = 0, fitted = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const OpList list = testing::always_full(seed, 12);
    const PlanLimits limits{.effort = 0.005, .prove_small = false};
    const Bytes budget = replay_schedule(list, keep_all_schedule(list), {}).peak_bytes;
    const StepPlan bytes_only = plan_step_within(list, budget, {}, limits);
    const StepPlan plan =
        plan_step_within(list, budget, {}, {.effort = 0.005, .prove_small = false, .addresses = true});
    if (!plan.fits()) {
      EXPECT_FALSE(plan.proven && bytes_only.fits());
      continue;
    }
    ++fitted;
    ASSERT_TRUE(plan.addresses.has_value());
    expect_apart(*plan.addresses);
    EXPECT_LE(plan.addresses->height_bytes, budget) << seed;
    EXPECT_GE(plan.addresses->height_bytes, plan.replay.peak_bytes) << seed;
    EXPECT_EQ(plan.budget_bytes, budget);
    EXPECT_GE(plan.replay.added_cost, bytes_only.replay.added_cost) << seed;
    EXPECT_EQ(plan.lower_bound_cost, bytes_only.lower_bound_cost) << seed;
    fed_back += addresses_of(list, bytes_only.schedule, budget).height_bytes > budget ? 1 : 0;
  }
  EXPECT_GE(fitted, 60);
  EXPECT_GE(fed_back, 3);  // what is resident fits, its addresses do not: less was planned for
}

}  // namespace
}  // namespace tidemark::remat
