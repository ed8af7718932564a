#include "planner/remat/treeverse.h"

#include <gtest/gtest.h>

#include "planner/remat/plan.h"
#include "tests/remat/random_list.h"

namespace tidemark::remat {
namespace {

std::int64_t choose(std::int64_t n, std::int64_t k) {
  std::int64_t value = 1;
  for (std::int64_t i = 1; i <= k; ++i) value = value * (n - k + i) / i;
  return value;
}

/// Griewank's closed form.
std::int64_t closed_form(std::int64_t steps, std::int64_t stored) {
  std::int64_t r = 1;
  while (choose(stored + r, stored) < steps) ++r;
  return r * steps - choose(stored + r, r - 1);
}

TEST(Treeverse, EqualsTheClosedForm) {
  for (std::int32_t stored = 1; stored <= 20; ++stored)
    for (std::int32_t steps = 2; steps <= 1000; steps += steps < 60 ? 1 : 47)
      EXPECT_EQ(Treeverse(steps, stored).steps(), closed_form(steps, stored)) << steps << " " << stored;
}

TEST(Treeverse, AdvancesAddUpToTheCost) {
  for (const std::int32_t stored : {1, 2, 3, 7})
    for (const std::int32_t steps : {2, 3, 10, 57}) {
      const Treeverse tree(steps, stored);
      std::int64_t count = steps - 1;  // the first run
      tree.for_each_advance([&](std::int32_t begin, std::int32_t end, std::int32_t) { count += end - begin; });
      EXPECT_EQ(count, tree.steps()) << steps << " " << stored;
    }
}

/// With the input free to have back, s + 2 bytes hold s stored states and two at work.
TEST(PlanStep, UniformChainsEqualTheClosedForm) {
  struct Case {
    std::int32_t steps, stored;
  };
  for (const auto& [steps, stored] : {Case{10, 1}, Case{10, 3}, Case{50, 2}, Case{100, 5}, Case{200, 10}}) {
    const OpList list = testing::uniform_chain(steps);
    const StepPlan plan = plan_step_within(list, stored + 2, {}, {.effort = 0.01});
    ASSERT_TRUE(plan.fits());
    EXPECT_EQ(plan.replay.added_cost + steps - 1, closed_form(steps, stored)) << steps << " " << stored;
  }
}

}  // namespace
}  // namespace tidemark::remat
