// Every figure of a job is with the same reserve: that of its limits, its growth and its advice.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "integrations/ci/baseline_report.h"
#include "integrations/ci/judgement.h"
#include "integrations/ci/report_json.h"
#include "tests/ci/held.h"

namespace tidemark {
namespace {

using budget::Basis;
using budget::Category;
using testing::held;
using testing::input_of;
using testing::rank_of;

budget::Holdings with_reserve(Bytes state, Bytes reserve, Basis basis = Basis::planned) {
  budget::Holdings holdings{.basis = basis, .source = "x"};
  holdings.ranks = {
      rank_of(0, {held("state", Category::parameters, state), held("reserve.context", Category::reserve, reserve)})};
  return holdings;
}

TEST(CiJudgedReserve, GrowthOfAPlanIsWithoutTheReserveThatItsOwnStandsFor) {
  ci::JobInput input = input_of(with_reserve(40 * kGiB, 6 * kGiB));
  input.baseline = ci::baseline_of("pangu", {}, with_reserve(30 * kGiB, 6 * kGiB));
  EXPECT_EQ(ci::judge(input).findings[1].bytes, 46 * kGiB);
  input.job.reserve_bytes = 0;
  const ci::JobResult result = ci::judge(input);
  ASSERT_EQ(result.findings.size(), 2U);
  EXPECT_EQ(result.findings[0].bytes, 40 * kGiB);
  EXPECT_EQ(result.findings[1].bytes, 40 * kGiB);
  EXPECT_EQ(result.findings[1].before_bytes, 30 * kGiB);
  EXPECT_EQ(result.growth->highest_after_bytes, 40 * kGiB);
  EXPECT_EQ(result.growth->highest_before_bytes, 30 * kGiB);
}

// A finding about the category counts it, the figures of the rank do not: a reader of the JSON can add it back.
TEST(CiJudgedReserve, WhatIsLeftOutIsSaid) {
  ci::JobInput input = input_of(with_reserve(40 * kGiB, 6 * kGiB));
  input.job.reserve_bytes = 3 * kGiB;
  input.job.limits = {{.category = Category::reserve, .most_bytes = 8 * kGiB}};
  const ci::JobResult result = ci::judge(input);
  EXPECT_EQ(result.findings.at(1).bytes, 6 * kGiB);
  EXPECT_EQ(result.holdings.ranks[0].reserve_left_out_bytes, 6 * kGiB);
  const std::string json = ci::json_report(ci::GateResult{.jobs = {result}});
  EXPECT_NE(json.find(R"("reserve_left_out_bytes":6442450944)"), std::string::npos) << json;
}

TEST(CiJudgedReserve, OfMeasuredRunsAsMuchAsTheJobKeepsIsOutOfBothSides) {
  ci::JobInput input = input_of(with_reserve(40 * kGiB, 6 * kGiB, Basis::measured));
  input.job.reserve_bytes = 4 * kGiB;
  input.baseline = ci::baseline_of("pangu", {}, with_reserve(40 * kGiB, 6 * kGiB, Basis::measured));
  ASSERT_TRUE(ci::add_run(*input.baseline, {}, with_reserve(39 * kGiB, 6 * kGiB, Basis::measured)).ok());
  const ci::JobResult result = ci::judge(input);
  EXPECT_EQ(result.findings[0].bytes, 42 * kGiB);
  EXPECT_EQ(result.findings[1].bytes, 42 * kGiB);
  EXPECT_EQ(result.findings[1].before_bytes, 42 * kGiB);
  const ci::BaselineJob lowered = ci::lowered_to(*input.baseline, ci::holdings_of(*input.baseline));
  EXPECT_EQ(lowered, *input.baseline) << "nothing is taken out";
}

TEST(CiJudgedReserve, APredictionBesideAMeasuredRunIsOfTheSameFigures) {
  ci::JobInput input = input_of(with_reserve(40 * kGiB, 6 * kGiB, Basis::measured));
  input.predicted = with_reserve(38 * kGiB, 5 * kGiB);
  input.job.reserve_bytes = 4 * kGiB;
  const ci::JobResult result = ci::judge(input);
  ASSERT_EQ(result.comparison->ranks.size(), 1U);
  const budget::ComparedBytes& peak = result.comparison->ranks[0].peak;
  EXPECT_EQ(peak.measured_bytes, result.findings[0].bytes) << "the peak that the budget is held against";
  EXPECT_EQ(peak.measured_bytes, 42 * kGiB);
  EXPECT_EQ(peak.predicted_bytes, 38 * kGiB) << "a plan's reserve is what the job's stands for";
  EXPECT_EQ(result.predicted->ranks[0].peak_bytes, 38 * kGiB);
  input.job.reserve_bytes = std::nullopt;
  EXPECT_EQ(ci::judge(input).comparison->ranks[0].peak, (budget::ComparedBytes{43 * kGiB, 46 * kGiB}));
}

TEST(CiJudgedReserve, ABaselineIsShownInTheSameFigures) {
  ci::BudgetJob job = input_of(with_reserve(1, 1)).job;
  job.reserve_bytes = 2 * kGiB;
  ci::Baseline before{.tool_version = "0.1.0"}, after = before;
  ci::put_job(before, ci::baseline_of("pangu", {}, with_reserve(30 * kGiB, 6 * kGiB)));
  ci::put_job(after, ci::baseline_of("pangu", {}, with_reserve(33 * kGiB, 6 * kGiB)));
  EXPECT_NE(ci::baseline_summary(before, {job}).find("highest 30.00 GiB on rank 0"), std::string::npos);
  EXPECT_NE(ci::baseline_summary(before, {}).find("highest 36.00 GiB on rank 0"), std::string::npos);
  EXPECT_NE(ci::baseline_changes(before, after, {job}).find("highest 33.00 GiB on rank 0 (+10.0 %, from 30.00 GiB)"),
            std::string::npos);
}

TEST(CiJudgedReserve, ALowerBudgetIsOfTheSameFigures) {
  ci::JobInput input = input_of(with_reserve(20 * kGiB, 6 * kGiB));
  input.job.reserve_bytes = 2 * kGiB;
  input.baseline = ci::baseline_of("pangu", {}, with_reserve(30 * kGiB, 6 * kGiB));
  EXPECT_EQ(ci::judge(input).notices,
            std::vector<std::string>{"the budget can be lowered to 22.00 GiB: the highest peak fell from 30.00 GiB to "
                                     "20.00 GiB (-33.3 %); `tidemark baseline update` holds on to it"});
}

}  // namespace
}  // namespace tidemark
