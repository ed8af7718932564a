#include "planner/budget/growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/planner/budget/sample_holdings.h"

namespace tidemark::budget {
namespace {

TEST(Growth, NamesWhatGrewShrankCameAndWent) {
  const Growth growth = growth_of(
      holdings_of({rank_of(0, {held("kept", Category::parameters, 7), held("up", Category::activations, 10),
                               held("down", Category::activations, 9), held("gone", Category::gradients, 4)})}),
      holdings_of({rank_of(0, {held("kept", Category::parameters, 7), held("up", Category::activations, 30),
                               held("down", Category::activations, 8), held("new", Category::temporaries, 3)})}));
  ASSERT_EQ(growth.storages.size(), 4u);
  EXPECT_EQ(growth.storages[0].name, "up");
  EXPECT_EQ(growth.storages[0].kind, StorageGrowth::Kind::grown);
  EXPECT_EQ(growth.storages[1].name, "gone");
  EXPECT_EQ(growth.storages[1].kind, StorageGrowth::Kind::removed);
  EXPECT_EQ(growth.storages[2].name, "new");
  EXPECT_EQ(growth.storages[2].kind, StorageGrowth::Kind::added);
  EXPECT_EQ(growth.storages[3].name, "down");
  EXPECT_EQ(growth.storages[3].kind, StorageGrowth::Kind::shrunk);
  EXPECT_EQ(growth.before_bytes, 30);
  EXPECT_EQ(growth.after_bytes, 48);
}

TEST(Growth, RanksOfOneSideCountWhole) {
  const Growth growth = growth_of(holdings_of({rank_of(0, {held("a", Category::other, 5)})}),
                                  holdings_of({rank_of(1, {held("a", Category::other, 8)})}));
  ASSERT_EQ(growth.ranks.size(), 2u);
  EXPECT_FALSE(growth.ranks[0].after_bytes);
  EXPECT_EQ(growth.ranks[0].delta_bytes(), -5);
  EXPECT_FALSE(growth.ranks[1].before_bytes);
  EXPECT_EQ(growth.ranks[1].delta_bytes(), 8);
  EXPECT_EQ(growth.highest_after_bytes, 8);
}

/// Stages of an estimate, each told by one rank: `numbers` of stages 0, 1, ... that hold `bytes`.
Holdings stages(const std::vector<std::int64_t>& numbers, const std::vector<Bytes>& bytes) {
  Holdings holdings;
  holdings.basis = Basis::estimated;
  for (std::size_t stage = 0; stage < numbers.size(); ++stage) {
    holdings.ranks.push_back(rank_of(numbers[stage], {held("a", Category::activations, bytes[stage])}));
    holdings.ranks.back().place = "pp" + std::to_string(stage);
  }
  std::ranges::sort(holdings.ranks, {}, &RankHoldings::rank);
  return holdings;
}

TEST(Growth, OfEstimatesAStageIsComparedWithItselfWhateverItsRank) {
  const Growth more_devices = growth_of(stages({0, 4}, {60, 40}), stages({0, 8}, {60, 58}));
  ASSERT_EQ(more_devices.ranks.size(), 2U);
  EXPECT_EQ(more_devices.ranks[1].rank, 8);
  EXPECT_EQ(more_devices.ranks[1].before_bytes, 40);
  EXPECT_EQ(more_devices.ranks[1].after_bytes, 58);
  EXPECT_EQ(more_devices.ranks[1].storages.at(0).kind, StorageGrowth::Kind::grown);
  // Ranks that do not ascend by stage: of stages within data groups, the highest of each.
  const Growth crossed = growth_of(stages({32, 8}, {60, 40}), stages({0, 8}, {61, 41}));
  ASSERT_EQ(crossed.ranks.size(), 2U);
  EXPECT_EQ(crossed.ranks[0].before_bytes, 60);
  EXPECT_EQ(crossed.ranks[1].before_bytes, 40);
}

TEST(Growth, OfEstimatesWithoutPlacesAsManyRowsAreInOneOrder) {
  Holdings before = stages({0, 4}, {60, 40});
  for (RankHoldings& rank : before.ranks) rank.place.clear();
  EXPECT_EQ(growth_of(before, stages({0, 8}, {60, 58})).ranks.at(1).before_bytes, 40);
  const Growth more_stages = growth_of(before, stages({0, 2, 4}, {1, 2, 3}));
  ASSERT_EQ(more_stages.ranks.size(), 3U);
  EXPECT_FALSE(more_stages.ranks[1].before_bytes);
  EXPECT_EQ(more_stages.ranks[2].before_bytes, 40);
}

TEST(Growth, AStageThatIsGoneIsARowOfItsOwn) {
  const Growth fewer = growth_of(stages({0, 2, 4}, {1, 2, 3}), stages({0, 4}, {10, 20}));
  ASSERT_EQ(fewer.ranks.size(), 3U);
  EXPECT_EQ(fewer.ranks[1].rank, 4);
  EXPECT_EQ(fewer.ranks[1].before_bytes, 2);
  EXPECT_EQ(fewer.ranks[1].after_bytes, 20);
  EXPECT_EQ(fewer.ranks[2].rank, 4);
  EXPECT_FALSE(fewer.ranks[2].after_bytes);
  EXPECT_EQ(fewer.before_bytes, 6);
}

Holdings random_holdings(std::mt19937& random) {
  Holdings holdings;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    std::vector<HeldStorage> storages;
    for (int name = 0; name < 6; ++name)
      if (random() % 3 != 0)
        storages.push_back(held("s" + std::to_string(name), Category::activations, static_cast<Bytes>(random() % 20),
                                static_cast<std::int64_t>(1 + random() % 3)));
    if (random() % 4 != 0) holdings.ranks.push_back(rank_of(rank, storages));
  }
  return holdings;
}

TEST(Growth, ChangesAddUpToTheDifferenceOfThePeaks) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const Holdings before = random_holdings(random), after = random_holdings(random);
    const Growth growth = growth_of(before, after);
    Bytes by_storage = 0, by_rank = 0;
    for (const StorageGrowth& storage : growth.storages) by_storage += storage.delta_bytes();
    for (const RankGrowth& rank : growth.ranks) {
      by_rank += rank.delta_bytes();
      Bytes in_rank = 0;
      for (const StorageGrowth& storage : rank.storages) in_rank += storage.delta_bytes();
      EXPECT_EQ(in_rank, rank.delta_bytes());
    }
    EXPECT_EQ(by_storage, growth.after_bytes - growth.before_bytes);
    EXPECT_EQ(by_rank, growth.after_bytes - growth.before_bytes);
    EXPECT_EQ(growth_of(before, before).storages.size(), 0u);
  }
}

TEST(Growth, PercentAbove) {
  EXPECT_DOUBLE_EQ(percent_above(100, 127), 27);
  EXPECT_DOUBLE_EQ(percent_above(0, 0), 0);
  EXPECT_TRUE(std::isinf(percent_above(0, 1)));
}

}  // namespace
}  // namespace tidemark::budget
