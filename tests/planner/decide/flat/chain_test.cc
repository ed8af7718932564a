// The planner on uniform chains, against the closed form.

#include <gtest/gtest.h>

#include <vector>

#include "planner/decide/flat/plan.h"
#include "tests/planner/decide/flat/chain_cost.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"

namespace tidemark::decide::flat {
namespace {

struct ChainCase {
  std::int32_t steps;
  std::vector<std::int32_t> stored;
};

using testing::FlatStep;

class UniformChain : public ::testing::TestWithParam<ChainCase> {};

/// With the input free to recompute, s + 2 bytes hold s stored states and two at work.
TEST_P(UniformChain, EqualsTheClosedForm) {
  const auto& [steps, all_stored] = GetParam();
  const FlatStep flat(testing::uniform_chain(steps));
  StepPlanner planner(flat.problem, {.effort = 0.01});
  for (const std::int32_t stored : all_stored) {
    const StepPlan plan = planner.within(stored + 2);
    ASSERT_TRUE(plan.fits()) << stored;
    EXPECT_EQ(plan.outcome.added_cost + steps - 1, testing::chain_forward_steps(steps, stored)) << stored;
  }
}

INSTANTIATE_TEST_SUITE_P(Planner, UniformChain,
                         ::testing::Values(ChainCase{10, {1, 2, 3, 4, 5}}, ChainCase{50, {1, 2, 3, 4, 5}},
                                           ChainCase{100, {1, 2, 3, 4, 5}}, ChainCase{200, {3, 5, 10}},
                                           ChainCase{1000, {2, 3, 5, 8, 10, 15, 20, 25, 30, 35, 40, 44}}),
                         [](const auto& which) { return std::to_string(which.param.steps); });

}  // namespace
}  // namespace tidemark::decide::flat
