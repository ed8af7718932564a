// Limits on categories that a source does not tell, or tells in part.

#include <gtest/gtest.h>

#include "planner/budget/limit.h"
#include "tests/planner/budget/sample_holdings.h"

namespace tidemark::budget {
namespace {

Finding judge_category(const RankHoldings& rank, Category category, Bytes most_bytes) {
  Limit limit;
  limit.category = category;
  limit.most_bytes = most_bytes;
  return judge(holdings_of({rank}), {limit}).front();
}

TEST(UntoldCategory, IsHeldAgainstNoRank) {
  RankHoldings rank = rank_of(0, {held("a", Category::other, 90)});
  rank.is_untold[static_cast<std::size_t>(Category::cached)] = true;
  const Finding finding = judge_category(rank, Category::cached, 0);
  EXPECT_EQ(finding.verdict, Verdict::near);
  EXPECT_FALSE(finding.rank);
  EXPECT_EQ(judge_category(rank, Category::reserve, 0).verdict, Verdict::pass);
}

TEST(UntoldCategory, FailsByThePartThatIsKnown) {
  RankHoldings rank = rank_of(0, {held("a", Category::cached, 90)});
  rank.is_untold[static_cast<std::size_t>(Category::cached)] = true;
  EXPECT_EQ(judge_category(rank, Category::cached, 89).verdict, Verdict::fail);
  EXPECT_EQ(judge_category(rank, Category::cached, 1000).verdict, Verdict::near);
}

TEST(UntoldCategory, WhatStandsUnderOtherMayBeOfIt) {
  const RankHoldings rank = rank_of(0, {held("a", Category::activations, 10), held("b", Category::other, 90)});
  EXPECT_EQ(judge_category(rank, Category::activations, 100).verdict, Verdict::pass);
  EXPECT_EQ(judge_category(rank, Category::activations, 99).verdict, Verdict::near);
  EXPECT_EQ(judge_category(rank, Category::activations, 9).verdict, Verdict::fail);
  EXPECT_EQ(judge_category(rank, Category::parameters, 0).verdict, Verdict::near);
  EXPECT_EQ(judge_category(rank, Category::cached, 0).verdict, Verdict::pass);
}

}  // namespace
}  // namespace tidemark::budget
