#include "planner/budget/limit.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/planner/budget/sample_holdings.h"

namespace tidemark::budget {
namespace {

Holdings three_ranks() {
  return holdings_of({rank_of(0, {held("a", Category::parameters, 60), held("b", Category::activations, 40)}),
                      rank_of(1, {held("a", Category::parameters, 50), held("b", Category::activations, 80)}),
                      rank_of(2, {held("a", Category::parameters, 90), held("b", Category::activations, 20)})});
}

Limit at_most(Bytes bytes) {
  Limit limit;
  limit.most_bytes = bytes;
  return limit;
}

Finding judge_one(const Holdings& holdings, const Limit& limit) {
  return judge(holdings, {limit}).front();
}

TEST(Limit, ComparesWithTheHighestRank) {
  const Finding finding = judge_one(three_ranks(), at_most(129));
  EXPECT_EQ(finding.verdict, Verdict::fail);
  EXPECT_EQ(finding.rank, 1u);
  EXPECT_EQ(finding.bytes, 130);
}

// A row of an estimate stands for the ranks of a stage: 0 to 3 and 8 to 11, then 4 to 7.
TEST(RankChoice, CoversARowWhereItHasEveryRankOfItsStage) {
  Holdings holdings = three_ranks();
  holdings.ranks.pop_back();
  holdings.ranks[1].rank = 4;
  holdings.rank_count = 12;
  holdings.stage_stride = 4;
  const auto choice = [](std::vector<std::int64_t> ranks) {
    return RankChoice{.kind = RankChoice::Kind::listed, .listed = std::move(ranks)};
  };
  EXPECT_TRUE(choice({9}).holds(holdings, 0));
  EXPECT_FALSE(choice({9}).covers(holdings, 0));
  EXPECT_FALSE(choice({0, 1, 2, 3, 8, 9, 10}).covers(holdings, 0));
  EXPECT_FALSE(choice({0, 1, 2, 3, 8, 9, 10, 10}).covers(holdings, 0));
  EXPECT_FALSE(choice({0, 1, 2, 3, 8, 9, 10, 16}).covers(holdings, 0));
  EXPECT_TRUE(choice({0, 1, 2, 3, 5, 8, 9, 10, 11}).covers(holdings, 0));
  EXPECT_FALSE(choice({0, 1, 2, 3, 5, 8, 9, 10, 11}).covers(holdings, 1));
  EXPECT_TRUE(choice({4, 5, 6, 7}).covers(holdings, 1));
  EXPECT_TRUE(RankChoice{.kind = RankChoice::Kind::first}.covers(holdings, 0));
  EXPECT_FALSE(RankChoice{.kind = RankChoice::Kind::first}.covers(holdings, 1));
  holdings.stage_stride = 0;
  EXPECT_TRUE(choice({4}).covers(holdings, 1));
}

TEST(Limit, TheLimitItselfIsWithin) {
  EXPECT_EQ(judge_one(three_ranks(), at_most(130)).verdict, Verdict::pass);
}

TEST(Limit, NearIsWithinTheLargerTolerance) {
  Limit limit = at_most(1000);
  limit.near = {.percent = 86, .bytes = 10};                          // nearer than 860
  EXPECT_EQ(judge_one(three_ranks(), limit).verdict, Verdict::pass);  // 130 is not above 140
  limit.near = {.percent = 87.1, .bytes = 10};
  EXPECT_EQ(judge_one(three_ranks(), limit).verdict, Verdict::near);
  limit.near = {.percent = 0, .bytes = 871};
  EXPECT_EQ(judge_one(three_ranks(), limit).verdict, Verdict::near);
}

TEST(Limit, RankChoices) {
  Limit limit = at_most(1000);
  limit.ranks.kind = RankChoice::Kind::first;
  EXPECT_EQ(judge_one(three_ranks(), limit).bytes, 100);
  limit.ranks.kind = RankChoice::Kind::middle;
  EXPECT_EQ(judge_one(three_ranks(), limit).bytes, 130);
  limit.ranks.kind = RankChoice::Kind::last;
  EXPECT_EQ(judge_one(three_ranks(), limit).bytes, 110);
  limit.ranks = {.kind = RankChoice::Kind::listed, .listed = {0, 2}};
  EXPECT_EQ(judge_one(three_ranks(), limit).bytes, 110);
}

/// Of 16 ranks in two pipeline stages, one after the other or in turns of two.
TEST(Limit, ARankOfAnEstimateIsItsStages) {
  Holdings holdings = holdings_of(
      {rank_of(0, {held("a", Category::activations, 100)}), rank_of(8, {held("a", Category::activations, 200)})});
  holdings.basis = Basis::estimated;
  holdings.rank_count = 16;
  holdings.stage_stride = 8;
  Limit limit = at_most(1000);
  for (const auto& [rank, bytes] : {std::pair(7, 100), std::pair(9, 200), std::pair(15, 200)}) {
    limit.ranks = {.kind = RankChoice::Kind::listed, .listed = {rank}};
    EXPECT_EQ(judge_one(holdings, limit).bytes, bytes) << rank;
    EXPECT_EQ(judge_one(holdings, limit).verdict, Verdict::pass) << rank;
  }
  limit.ranks.listed = {0, 99};
  EXPECT_EQ(judge_one(holdings, limit).verdict, Verdict::near);
  holdings.ranks[1].rank = 2;
  holdings.stage_stride = 2;
  EXPECT_EQ(row_for(holdings, 13), 0U);
  EXPECT_EQ(row_for(holdings, 14), 1U);
  EXPECT_FALSE(row_for(holdings, 16));
}

TEST(Limit, OfACategoryAndOfAPhase) {
  Limit limit = at_most(89);
  limit.category = Category::parameters;
  EXPECT_EQ(judge_one(three_ranks(), limit).verdict, Verdict::fail);
  EXPECT_EQ(judge_one(three_ranks(), limit).rank, 2u);

  Holdings holdings = three_ranks();
  for (RankHoldings& rank : holdings.ranks) rank.by_phase[static_cast<std::size_t>(Phase::backward)] = 70;
  holdings.ranks[1].by_phase[static_cast<std::size_t>(Phase::backward)] = 77;
  limit = at_most(80);
  limit.phase = Phase::backward;
  const Finding finding = judge_one(holdings, limit);
  EXPECT_EQ(finding.verdict, Verdict::pass);
  EXPECT_EQ(finding.bytes, 77);
}

TEST(Limit, WhatNoSourceTellsIsNear) {
  Limit limit = at_most(10);
  limit.is_host = true;
  const Finding finding = judge_one(three_ranks(), limit);
  EXPECT_EQ(finding.verdict, Verdict::near);
  EXPECT_FALSE(finding.rank);
}

TEST(Limit, ARankThatDoesNotTellRulesOutPass) {
  Holdings holdings = three_ranks();
  holdings.ranks[0].host_bytes = 5;
  Limit limit = at_most(10);
  limit.is_host = true;
  EXPECT_EQ(judge_one(holdings, limit).verdict, Verdict::near);
  EXPECT_EQ(judge_one(holdings, limit).rank, 0u);
  limit.most_bytes = 4;
  EXPECT_EQ(judge_one(holdings, limit).verdict, Verdict::fail);
  for (RankHoldings& rank : holdings.ranks) rank.host_bytes = 5;
  limit.most_bytes = 10;
  EXPECT_EQ(judge_one(holdings, limit).verdict, Verdict::pass);
  limit.ranks = {.kind = RankChoice::Kind::listed, .listed = {0, 7}};
  EXPECT_EQ(judge_one(holdings, limit).verdict, Verdict::near);
}

TEST(Limit, AnEstimateWhoseBandReachesAboveIsNear) {
  Holdings holdings = three_ranks();
  holdings.basis = Basis::estimated;
  holdings.band_percent = 10;  // 13 of 130
  EXPECT_EQ(judge_one(holdings, at_most(143)).verdict, Verdict::pass);
  EXPECT_EQ(judge_one(holdings, at_most(142)).verdict, Verdict::near);
  EXPECT_EQ(judge_one(holdings, at_most(129)).verdict, Verdict::fail);
}

/// All that a prediction is off by may lie in the part that is limited.
TEST(Limit, TheBandOfAPartIsThatOfThePeak) {
  Holdings holdings =
      holdings_of({rank_of(0, {held("a", Category::parameters, 800), held("b", Category::activations, 200)})});
  holdings.basis = Basis::estimated;
  holdings.band_percent = 15;  // 150 of 1000
  holdings.ranks[0].by_phase[static_cast<std::size_t>(Phase::forward)] = 200;
  Limit category = at_most(350), phase = at_most(350);
  category.category = Category::activations;
  phase.phase = Phase::forward;
  for (Limit limit : {category, phase}) {
    EXPECT_EQ(judge_one(holdings, limit).verdict, Verdict::pass);
    EXPECT_EQ(judge_one(holdings, limit).band_bytes, 150);
    limit.most_bytes = 349;
    EXPECT_EQ(judge_one(holdings, limit).verdict, Verdict::near);
    limit.most_bytes = 199;
    EXPECT_EQ(judge_one(holdings, limit).verdict, Verdict::fail);
  }
}

TEST(Limit, TheWiderBandOfAHigherPeakDecides) {
  Holdings holdings =
      holdings_of({rank_of(0, {held("a", Category::parameters, 100), held("b", Category::activations, 100)}),
                   rank_of(1, {held("a", Category::parameters, 410), held("b", Category::activations, 90)})});
  holdings.basis = Basis::estimated;
  holdings.band_percent = 15;  // 30 and 75
  Limit limit = at_most(140);
  limit.category = Category::activations;
  EXPECT_EQ(judge_one(holdings, limit).verdict, Verdict::near);
  EXPECT_EQ(judge_one(holdings, limit).rank, 1U);
  limit.most_bytes = 99;
  EXPECT_EQ(judge_one(holdings, limit).rank, 0U);
}

TEST(Limit, APercentageOfAnySizeCanBeAdded) {
  EXPECT_EQ((Tolerance{.percent = 1000}.of(Bytes{1} << 60)), 1'000'000'000'000'000'000);
  EXPECT_EQ((Tolerance{.percent = 1000, .bytes = 7}.of(5)), 50);
}

TEST(Limit, WhatIsNotUnderstoodNeverPasses) {
  Holdings holdings = three_ranks();
  holdings.is_understood = false;
  EXPECT_EQ(judge_one(holdings, at_most(100'000)).verdict, Verdict::near);
  EXPECT_EQ(judge_one(holdings, at_most(100)).verdict, Verdict::fail);
}

TEST(Limit, NothingHeldKeepsALimitOfZero) {
  Limit limit = at_most(0);
  limit.category = Category::communication;
  EXPECT_EQ(judge_one(three_ranks(), limit).verdict, Verdict::pass);
}

TEST(Limit, TheWorstOfSeveral) {
  EXPECT_EQ(worst({}), Verdict::pass);
  EXPECT_EQ(worst(judge(three_ranks(), {at_most(1000), at_most(129), at_most(131)})), Verdict::fail);
}

}  // namespace
}  // namespace tidemark::budget
