#include "planner/budget/holdings.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/planner/budget/sample_holdings.h"

namespace tidemark::budget {
namespace {

TEST(Holdings, StoragesOfOneNameAreOneRow) {
  HeldStorage first = held("a", Category::activations, 10, 2), second = held("a", Category::activations, 5, 1);
  first.controls = {{.file = "f", .line = 1, .text = "x"}};
  second.controls = {{.file = "f", .line = 1, .text = "x"}, {.file = "f", .line = 2, .text = "y"}};
  const RankHoldings rank = rank_of(0, {first, held("b", Category::gradients, 40), second});
  ASSERT_EQ(rank.storages.size(), 2u);
  EXPECT_EQ(rank.storages[0].name, "b");
  EXPECT_EQ(rank.storages[1].bytes, 15);
  EXPECT_EQ(rank.storages[1].count, 3);
  EXPECT_EQ(rank.storages[1].controls.size(), 2u);
}

TEST(Holdings, CategoriesAddUpToThePeakWithTheRest) {
  RankHoldings rank;
  rank.peak_bytes = 100;
  rank.storages = {held("a", Category::parameters, 30), held("term", Category::temporaries, -5)};
  settle(rank, Category::cached);
  EXPECT_EQ(rank.by_category[static_cast<std::size_t>(Category::cached)], 75);
  EXPECT_EQ(rank.by_category[static_cast<std::size_t>(Category::temporaries)], -5);
  EXPECT_EQ(std::accumulate(rank.by_category.begin(), rank.by_category.end(), Bytes{0}), 100);
}

TEST(Holdings, EqualStoragesAreOrderedByName) {
  const RankHoldings rank =
      rank_of(0, {held("c", Category::other, 1), held("a", Category::other, 1), held("b", Category::other, 2)});
  EXPECT_EQ(rank.storages[0].name, "b");
  EXPECT_EQ(rank.storages[1].name, "a");
  EXPECT_EQ(rank.storages[2].name, "c");
}

TEST(Holdings, WithoutReserveUpToASizeTheRestAddsUp) {
  Holdings whole = holdings_of({rank_of(0, {held("a", Category::parameters, 50), held("library", Category::reserve, 8),
                                            held("outside", Category::reserve, 20)}),
                                rank_of(1, {held("a", Category::parameters, 50)})});
  whole.ranks[0].by_phase[2] = 70;
  const auto reserve_of = [](const RankHoldings& rank) {
    return rank.by_category[static_cast<std::size_t>(Category::reserve)];
  };
  const Holdings some = without_reserve(whole, 15);
  EXPECT_EQ(some.ranks[0].peak_bytes, 63);
  EXPECT_EQ(some.ranks[0].by_phase[2], 55);
  EXPECT_FALSE(some.ranks[0].by_phase[1].has_value());
  EXPECT_EQ(reserve_of(some.ranks[0]), 13);
  EXPECT_EQ(some.ranks[0].reserve_left_out_bytes, 15);
  EXPECT_EQ(without_reserve(some).ranks[0].reserve_left_out_bytes, 28);
  EXPECT_EQ(some.ranks[0].storages,
            (std::vector<HeldStorage>{held("a", Category::parameters, 50), held("library", Category::reserve, 8),
                                      held("outside", Category::reserve, 5)}));
  EXPECT_EQ(some.ranks[1], whole.ranks[1]);
  EXPECT_EQ(without_reserve(whole, 24).ranks[0].storages,
            (std::vector<HeldStorage>{held("a", Category::parameters, 50), held("library", Category::reserve, 4)}));
  const RankHoldings none = without_reserve(whole).ranks[0];
  EXPECT_EQ(none.peak_bytes, 50);
  EXPECT_EQ(reserve_of(none), 0);
  EXPECT_EQ(none.storages.size(), 1u);
  EXPECT_EQ(without_reserve(whole, 0).ranks, whole.ranks);
}

TEST(Holdings, ARowIsFoundByItsOwnRank) {
  Holdings holdings =
      holdings_of({rank_of(2, {held("a", Category::other, 1)}), rank_of(8, {held("a", Category::other, 7)})});
  holdings.stage_stride = 8;
  EXPECT_EQ(find_row(holdings, 8), 1U);
  EXPECT_FALSE(find_row(holdings, 3));
  EXPECT_FALSE(find_row(holdings, 9));
}

TEST(Holdings, TheBandIsRoundedUp) {
  Holdings holdings = holdings_of({});
  EXPECT_EQ(band_bytes(holdings, 1001), 0);
  holdings.band_percent = 10;
  EXPECT_EQ(band_bytes(holdings, 1000), 100);
  EXPECT_EQ(band_bytes(holdings, 1001), 101);
}

TEST(Holdings, TheHighestRankIsTheFirstOfEqualOnes) {
  EXPECT_EQ(highest_rank(
                holdings_of({rank_of(0, {held("a", Category::other, 1)}), rank_of(3, {held("a", Category::other, 7)}),
                             rank_of(5, {held("a", Category::other, 7)})})),
            1u);
}

}  // namespace
}  // namespace tidemark::budget
