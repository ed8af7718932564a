// Balanced placements against every placement there is on small pipelines.

#include "planner/prices/work_balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

namespace tidemark::prices {
namespace {

using graph_build::SplitSchedule;
using graph_build::StagePlacement;

std::int64_t best_of_all(const StageWork& work, const SplitSchedule& shape, bool closed) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int32_t> counts;
  const auto stages = static_cast<std::size_t>(shape.stages());
  const std::function<void(std::int32_t)> next = [&](std::int32_t left) {
    if (counts.size() + 1 == stages) {
      if (closed && left > 0) return;
      counts.push_back(left);
      best = std::min(best, busiest_rank(work, shape, counts));
      counts.pop_back();
      return;
    }
    for (std::int32_t count = 0; count <= left; ++count) {
      counts.push_back(count);
      next(left - count);
      counts.pop_back();
    }
  };
  next(static_cast<std::int32_t>(work.layers.size()));
  return best;
}

/// No rank is busier than the best placement's busiest by more than the layers that rounding moves: one at either end
/// of each of its stages.
TEST(BalancedCounts, AreWithinRoundingOfTheBest) {
  std::mt19937 random(3);
  const auto below = [&](std::uint32_t n) { return static_cast<std::int32_t>(random() % n); };
  for (int round = 0; round < 300; ++round) {
    const SplitSchedule shape{.ranks = 2 + below(2),
                              .chunks = 1 + below(2),
                              .placement = below(2) == 0 ? StagePlacement::looped : StagePlacement::zigzag};
    StageWork work;
    for (std::int32_t i = 4 + below(5); i > 0; --i) work.layers.push_back(50 + below(100));
    work.fixed.assign(static_cast<std::size_t>(shape.stages()), 0);
    work.fixed.front() = below(40);
    work.fixed.back() = below(400);
    const bool closed = below(3) == 0;
    const std::vector<std::int32_t> counts = balanced_counts(work, shape, closed);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), static_cast<std::int32_t>(work.layers.size()));
    EXPECT_TRUE(std::ranges::all_of(counts, [](std::int32_t count) { return count >= 0; }));
    EXPECT_TRUE(!closed || counts.back() == 0);
    const std::int64_t slack = shape.chunks * *std::ranges::max_element(work.layers);
    EXPECT_LE(busiest_rank(work, shape, counts), best_of_all(work, shape, closed) + slack) << round;
  }
}

TEST(BalancedCounts, OfEqualLayersAreEven) {
  const StageWork work{.layers = std::vector<std::int64_t>(16, 7), .fixed = std::vector<std::int64_t>(8, 0)};
  const SplitSchedule shape{.ranks = 4, .chunks = 2, .placement = StagePlacement::zigzag};
  EXPECT_EQ(balanced_counts(work, shape, false), std::vector<std::int32_t>(8, 2));
}

/// A head as long as three layers takes the place of them on the rank that has both ends of the V.
TEST(BalancedCounts, MakeRoomForTheEndsOfTheirRank) {
  StageWork work{.layers = std::vector<std::int64_t>(13, 1), .fixed = {0, 0, 0, 0, 0, 0, 0, 3}};
  const SplitSchedule shape{.ranks = 4, .chunks = 2, .placement = StagePlacement::zigzag};
  const std::vector<std::int32_t> counts = balanced_counts(work, shape, false);
  EXPECT_EQ(counts.front(), 1);
  EXPECT_EQ(counts.back(), 0);
  EXPECT_EQ(busiest_rank(work, shape, counts), 4);
}

}  // namespace
}  // namespace tidemark::prices
