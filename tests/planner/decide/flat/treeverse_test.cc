#include "planner/decide/flat/treeverse.h"

#include <gtest/gtest.h>

#include "tests/planner/decide/flat/chain_cost.h"

namespace tidemark::decide::flat {
namespace {

TEST(Treeverse, EqualsTheClosedForm) {
  for (std::int32_t stored = 1; stored <= 20; ++stored)
    for (std::int32_t steps = 2; steps <= 1000; steps += steps < 60 ? 1 : 47)
      EXPECT_EQ(Treeverse(steps, stored).steps(), testing::chain_forward_steps(steps, stored))
          << steps << " " << stored;
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

}  // namespace
}  // namespace tidemark::decide::flat
