// Why a finding is NEAR or FAIL, in words that are true of its figures; and many limits and waivers at once.

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "integrations/ci/judgement.h"
#include "tests/ci/held.h"

namespace tidemark {
namespace {

using budget::Basis;
using budget::Category;
using budget::Verdict;
using testing::held;
using testing::holding;
using testing::input_of;
using testing::rank_of;

ci::JobFinding last_finding(const ci::JobInput& input) {
  return ci::judge(input).findings.back();
}

bool says(const ci::JobFinding& finding, std::string_view words) {
  return finding.line.find(words) != std::string::npos;
}

TEST(FindingWords, MissingRanksAreNoErrorBand) {
  ci::JobInput input = input_of(holding({kGiB}, Basis::measured));
  input.job.limits = {{.ranks = {.kind = budget::RankChoice::Kind::listed, .listed = {0, 1}}, .most_bytes = 2 * kGiB}};
  const ci::JobFinding finding = last_finding(input);
  EXPECT_EQ(finding.verdict, Verdict::near);
  EXPECT_TRUE(says(finding, "; not all it is for was looked at: rank 1 was not measured")) << finding.line;
}

TEST(FindingWords, WhatIsNotToldApartIsNamed) {
  ci::JobInput input = input_of(holding({}, Basis::measured));
  input.holdings.ranks = {rank_of(0, {held("a", Category::other, 3 * kGiB), held("b", Category::activations, kGiB)})};
  input.job.limits = {{.category = Category::activations, .most_bytes = 2 * kGiB}};
  const ci::JobFinding finding = last_finding(input);
  EXPECT_EQ(finding.verdict, Verdict::near);
  EXPECT_TRUE(says(finding, "; up to 3.00 GiB of category other may be of it")) << finding.line;
}

TEST(FindingWords, AToleranceAboveTheLimitIsSaidSo) {
  ci::JobInput input = input_of(holding({kGiB}));
  input.job.near = {.bytes = 90 * kGiB};
  const ci::JobFinding finding = last_finding(input);
  EXPECT_EQ(finding.verdict, Verdict::near);
  EXPECT_TRUE(says(finding, "; the tolerance of 90.00 GiB is no less than the limit itself")) << finding.line;
}

TEST(FindingWords, GrowthByAByteTooMuchIsSeen) {
  ci::JobInput input = input_of(holding({51 * kGiB + 1}));
  input.job.growth = {.percent = 2};
  input.baseline = ci::baseline_of("pangu", {}, holding({50 * kGiB}));
  const ci::JobFinding finding = last_finding(input);
  EXPECT_EQ(finding.verdict, Verdict::fail);
  EXPECT_TRUE(says(finding, "(+2.0 %); growth of 2 % is allowed, 1 B less than this")) << finding.line;
}

TEST(FindingWords, ARunWithoutARankIsNotAdded) {
  ci::BaselineJob job = ci::baseline_of("pangu", {}, holding({kGiB, 2 * kGiB}, Basis::measured));
  const ci::BaselineJob before = job;
  EXPECT_EQ(ci::add_run(job, {}, holding({kGiB}, Basis::measured)).error().message,
            "the run lacks rank 1 of the baseline; give a run of the same ranks, or begin the baseline anew");
  EXPECT_EQ(job, before);
  EXPECT_TRUE(ci::add_run(job, {}, holding({kGiB, 2 * kGiB, kGiB}, Basis::measured)).ok());
}

// Limits x ranks x waivers x waivers took minutes.
TEST(FindingWords, ManyLimitsAndWaiversAreSoonJudged) {
  ci::JobInput input = input_of(holding({61 * kGiB, 61 * kGiB, 61 * kGiB, 61 * kGiB}, Basis::measured));
  for (int i = 0; i < 1000; ++i) {
    input.job.limits.push_back({.most_bytes = kGiB});
    input.job.waivers.push_back({.owner = "a@b.c",
                                 .reason = "r",
                                 .expires = ci::parse_date("2026-12-31").value(),
                                 .scope = {.is_growth = i > 0},
                                 .at_most_bytes = 62 * kGiB});
  }
  const auto begin = std::chrono::steady_clock::now();
  const ci::JobResult result = ci::judge(input);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(result.findings.back().verdict, Verdict::near);  // waived
  EXPECT_EQ(result.notices.size(), 999U);                    // those of growth
}

}  // namespace
}  // namespace tidemark
