#include "planner/budget/comparison.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/planner/budget/sample_holdings.h"

namespace tidemark::budget {
namespace {

Holdings predicted_of(std::vector<RankHoldings> ranks, Basis basis, double band_percent = 0) {
  Holdings holdings = holdings_of(std::move(ranks));
  holdings.basis = basis;
  holdings.band_percent = band_percent;
  return holdings;
}

Holdings measured_of(std::vector<RankHoldings> ranks) {
  return predicted_of(std::move(ranks), Basis::measured);
}

const ComparedBytes& of(const RankComparison& rank, Category category) {
  return rank.by_category[static_cast<std::size_t>(category)];
}

TEST(Comparison, FiguresStandBesideEachOtherByCategory) {
  const Comparison comparison =
      compare(predicted_of({rank_of(0, {held("w", Category::parameters, 60), held("r", Category::reserve, 10)})},
                           Basis::planned),
              measured_of({rank_of(0, {held("a", Category::parameters, 58), held("b", Category::cached, 7),
                                       held("c", Category::reserve, 14)})}));
  ASSERT_EQ(comparison.ranks.size(), 1u);
  const RankComparison& rank = comparison.ranks.front();
  EXPECT_EQ(rank.peak, (ComparedBytes{70, 79}));
  EXPECT_EQ(rank.asked, (ComparedBytes{60, 58}));
  EXPECT_EQ(of(rank, Category::parameters), (ComparedBytes{60, 58}));
  EXPECT_EQ(of(rank, Category::cached), (ComparedBytes{0, 7}));
  EXPECT_EQ(of(rank, Category::reserve).delta_bytes(), 4);
  EXPECT_TRUE(rank.is_within_band);
  EXPECT_FALSE(rank.steady);
  EXPECT_FALSE(rank.host);
}

TEST(Comparison, APlanIsExceededByAnyByteAnEstimateByMoreThanItsBand) {
  const auto run = [](Bytes bytes) { return measured_of({rank_of(0, {held("a", Category::other, bytes)})}); };
  const auto plan = predicted_of({rank_of(0, {held("a", Category::other, 1000)})}, Basis::planned);
  EXPECT_TRUE(compare(plan, run(1000)).ranks.front().is_within_band);
  EXPECT_TRUE(compare(plan, run(1)).ranks.front().is_within_band);
  EXPECT_FALSE(compare(plan, run(1001)).ranks.front().is_within_band);
  const auto estimate = predicted_of({rank_of(0, {held("a", Category::other, 1000)})}, Basis::estimated, 5);
  EXPECT_EQ(compare(estimate, run(1000)).ranks.front().band_bytes, 50);
  EXPECT_TRUE(compare(estimate, run(1050)).ranks.front().is_within_band);
  EXPECT_FALSE(compare(estimate, run(1051)).ranks.front().is_within_band);
  EXPECT_TRUE(compare(estimate, run(950)).ranks.front().is_within_band);
  EXPECT_FALSE(compare(estimate, run(949)).ranks.front().is_within_band);
}

/// One band for verdicts and comparisons: rounded up.
TEST(Comparison, TheBandIsThatOfVerdicts) {
  const Holdings estimate = predicted_of({rank_of(0, {held("a", Category::other, 1001)})}, Basis::estimated, 5);
  const RankComparison rank =
      compare(estimate, measured_of({rank_of(0, {held("a", Category::other, 1052)})})).ranks.front();
  EXPECT_EQ(rank.band_bytes, band_bytes(estimate, 1001));
  EXPECT_EQ(rank.band_bytes, 51);
  EXPECT_TRUE(rank.is_within_band);
}

TEST(Comparison, BetweenStepsIsWithoutWhatThePeaksHaveBesideLiveBytes) {
  Holdings predicted = predicted_of({rank_of(0, {held("w", Category::parameters, 60), held("r", Category::reserve, 10),
                                                 held("f", Category::cached, 2)})},
                                    Basis::planned);
  Holdings measured = measured_of({rank_of(0, {held("w", Category::parameters, 58), held("c", Category::cached, 7)})});
  predicted.ranks[0].by_phase[0] = 40 + 10 + 2;
  measured.ranks[0].by_phase[0] = 41 + 7;
  EXPECT_EQ(compare(predicted, measured).ranks.front().steady, (ComparedBytes{40, 41}));
}

TEST(Comparison, SteadyAndHostAreComparedWhereBothTell) {
  Holdings predicted = predicted_of({rank_of(2, {held("a", Category::other, 9)})}, Basis::planned);
  Holdings measured = measured_of({rank_of(2, {held("a", Category::other, 9)})});
  predicted.ranks[0].by_phase[0] = 5;
  measured.ranks[0].by_phase[0] = 6;
  measured.ranks[0].host_bytes = 3;
  const RankComparison rank = compare(predicted, measured).ranks.front();
  EXPECT_EQ(rank.steady, (ComparedBytes{5, 6}));
  EXPECT_FALSE(rank.host);
}

TEST(Comparison, EveryRankIsOnOneListAndCategoriesAddUp) {
  std::mt19937 random(11);
  const auto random_side = [&](Basis basis) {
    std::vector<RankHoldings> ranks;
    for (std::int64_t rank = 0; rank < 6; ++rank)
      if (random() % 3 != 0)
        ranks.push_back(rank_of(rank, {held("a", Category::activations, static_cast<Bytes>(random() % 50)),
                                       held("b", Category::cached, static_cast<Bytes>(random() % 50))}));
    return predicted_of(std::move(ranks), basis);
  };
  for (int round = 0; round < 300; ++round) {
    const Holdings predicted = random_side(Basis::planned), measured = random_side(Basis::measured);
    const Comparison comparison = compare(predicted, measured);
    EXPECT_EQ(comparison.ranks.size() + comparison.only_predicted.size(), predicted.ranks.size());
    EXPECT_EQ(comparison.ranks.size() + comparison.only_measured.size(), measured.ranks.size());
    for (const RankComparison& rank : comparison.ranks) {
      Bytes delta = 0;
      for (const ComparedBytes& category : rank.by_category) delta += category.delta_bytes();
      EXPECT_EQ(delta, rank.peak.delta_bytes());
    }
  }
}

}  // namespace
}  // namespace tidemark::budget
