// Shares of several parts, told in any order and by several threads.

#include "planner/decide/flat/parted_progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "planner/threads/parallel.h"

namespace tidemark::decide::flat {
namespace {

TEST(PartedProgress, RisesToOne) {
  std::vector<double> told;
  PartedProgress progress([&](double share) { told.push_back(share); }, 4);
  threads::parallel_for_each(0, 4, [&](std::size_t i) {
    const auto tell = progress.part(i);
    for (const double share : {0.5, 0.25, 0.5, 1.0}) tell(share);
  });
  ASSERT_EQ(told.size(), 8) << "what is not more is not told";
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_EQ(told.back(), 1);
}

TEST(PartedProgress, PartsCountByTheirShares) {
  std::vector<double> told;
  PartedProgress progress([&](double share) { told.push_back(share); }, std::vector{0.75, 0.25});
  progress.part(1)(0.5);
  progress.part(0)(1);
  progress.part(1)(1);
  EXPECT_EQ(told, (std::vector{0.125, 0.875, 1.0}));
}

TEST(PartedProgress, NobodyAsks) {
  PartedProgress progress({}, 2);
  EXPECT_FALSE(progress.part(0));
}

}  // namespace
}  // namespace tidemark::decide::flat
