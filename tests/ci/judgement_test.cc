#include "integrations/ci/judgement.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ci/held.h"

namespace tidemark {
namespace {

using budget::Category;
using budget::Verdict;
using testing::held;
using testing::holding;
using testing::input_of;
using testing::rank_of;

constexpr Bytes kOver = 60 * kGiB + 1434 * kMiB;  // 61.40 GiB

TEST(CiJudgement, SaysItInOneLineFiguresFirst) {
  ci::JobInput input = input_of(holding({kGiB, 2 * kGiB, 3 * kGiB, kOver}));
  input.holdings.ranks[3].place = "pp3";
  input.holdings.ranks[3].peak_at = "backward, micro-batch 14, layer 41";
  const ci::JobResult result = ci::judge(input);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].line,
            "FAIL pangu rank 3 (pp3): peak 61.40 GiB exceeds budget 60.00 GiB by 1.40 GiB (+2.3 %) at backward, "
            "micro-batch 14, layer 41");
  EXPECT_EQ(ci::verdict_of(result), ci::GateVerdict::fail);
}

TEST(CiJudgement, AJobOfNoBudgetFileHasNoName) {
  ci::JobInput input = input_of(holding({kOver}));
  input.job.name = "";
  EXPECT_EQ(ci::judge(input).findings[0].line,
            "FAIL rank 0: peak 61.40 GiB exceeds budget 60.00 GiB by 1.40 GiB (+2.3 %)");
}

TEST(CiJudgement, NearSaysWhy) {
  ci::JobInput input = input_of(holding({59 * kGiB}));
  EXPECT_EQ(ci::judge(input).findings[0].line,
            "PASS pangu rank 0: peak 59.00 GiB is 1.00 GiB below budget 60.00 GiB (-1.7 %)");
  input.job.near = {.percent = 3};
  EXPECT_EQ(
      ci::judge(input).findings[0].line,
      "NEAR pangu rank 0: peak 59.00 GiB is 1.00 GiB below budget 60.00 GiB (-1.7 %), within the tolerance of 3 %");
  input.job.near = {};
  input.holdings.basis = budget::Basis::estimated;
  input.holdings.band_percent = 5;
  EXPECT_EQ(ci::judge(input).findings[0].line,
            "NEAR pangu rank 0: estimated peak 59.00 GiB is 1.00 GiB below budget 60.00 GiB (-1.7 %), within the error "
            "band of 5.0 %");
  ci::JobInput of_part = input;
  of_part.job.limits = {{.category = Category::activations, .most_bytes = 61 * kGiB}};
  EXPECT_EQ(ci::judge(of_part).findings[1].line,
            "NEAR pangu rank 0: estimated category activations 59.00 GiB is 2.00 GiB below limit 61.00 GiB (-3.3 %), "
            "within the error band of 5.0 % of the peak");
  input.holdings.is_understood = false;
  EXPECT_EQ(ci::judge(input).findings[0].line,
            "NEAR pangu rank 0: estimated peak 59.00 GiB is 1.00 GiB below budget 60.00 GiB (-1.7 %); not all of its "
            "input was understood, so nothing says how far off this is");
}

TEST(CiJudgement, TheReserveReplacesThatOfThePlan) {
  ci::JobInput input = input_of(holding({0}));
  input.holdings.ranks[0] =
      rank_of(0, {held("state", Category::parameters, 56 * kGiB), held("driver", Category::reserve, 6 * kGiB)});
  input.holdings.ranks[0].by_phase[2] = 60 * kGiB;
  EXPECT_EQ(ci::judge(input).findings[0].bytes, 62 * kGiB);  // with the device's reserve, against the whole capacity
  input.job.reserve_bytes = 3 * kGiB;
  const ci::JobResult result = ci::judge(input);
  EXPECT_EQ(result.findings[0].bytes, 56 * kGiB);
  EXPECT_EQ(result.findings[0].most_bytes, 57 * kGiB);
  EXPECT_EQ(result.findings[0].verdict, Verdict::pass);
  EXPECT_EQ(result.holdings.ranks[0].by_phase[2], 54 * kGiB);
  EXPECT_EQ(result.holdings.ranks[0].storages.size(), 1U);
}

// What others hold was measured: as much of it as the reserve is in that already, and what is more counts.
TEST(CiJudgement, OfAMeasuredRunTheReserveTakesOutNoMoreThanOthersHeld) {
  ci::JobInput input = input_of(holding({0}, budget::Basis::measured));
  const auto judged_with = [&input](Bytes others) {
    input.holdings.ranks[0] =
        rank_of(0, {held("state", Category::parameters, 50 * kGiB), held("outside", Category::reserve, others)});
    return ci::judge(input);
  };
  input.job.reserve_bytes = 4 * kGiB;
  for (const Bytes others : {Bytes{0}, kGiB, 4 * kGiB}) {
    EXPECT_EQ(judged_with(others).findings[0].bytes, 50 * kGiB) << others;
    EXPECT_EQ(judged_with(others).findings[0].most_bytes, 56 * kGiB);
  }
  const ci::JobResult more = judged_with(9 * kGiB);
  EXPECT_EQ(more.findings[0].bytes, 55 * kGiB);
  EXPECT_EQ(more.holdings.ranks[0].storages[1], held("outside", Category::reserve, 5 * kGiB));
  // A limit on the reserve itself is on all of it.
  input.job.limits = {{.category = Category::reserve, .most_bytes = 8 * kGiB}};
  EXPECT_EQ(judged_with(9 * kGiB).findings[1].bytes, 9 * kGiB);
  input.job.reserve_bytes.reset();
  EXPECT_EQ(judged_with(9 * kGiB).findings[0].bytes, 59 * kGiB);
}

TEST(CiJudgement, AnEstimateIsHeldAgainstWhatTheDeviceLeavesAndAMeasuredRunAgainstAll) {
  ci::JobInput input = input_of(holding({kGiB}, budget::Basis::estimated));
  input.device_reserve_bytes = 3 * kGiB;
  EXPECT_EQ(ci::limits_of(input)[0].most_bytes, 57 * kGiB);
  input.holdings.basis = budget::Basis::measured;
  EXPECT_EQ(ci::limits_of(input)[0].most_bytes, 60 * kGiB);
  input.holdings.basis = budget::Basis::planned;
  EXPECT_EQ(ci::limits_of(input)[0].most_bytes, 60 * kGiB);
  input.job.capacity_bytes.reset();
  input.device_capacity_bytes = 64 * kGiB;
  EXPECT_EQ(ci::limits_of(input)[0].most_bytes, 64 * kGiB);
  input.job.reserve_bytes = 4 * kGiB;
  EXPECT_EQ(ci::limits_of(input)[0].most_bytes, 60 * kGiB);
}

TEST(CiJudgement, HoldsDeviceHostAndLimitsInOrder) {
  ci::JobInput input = input_of(holding({40 * kGiB, 20 * kGiB}));
  input.holdings.ranks[1].host_bytes = 70 * kGiB;
  input.job.host_bytes = 64 * kGiB;
  input.job.limits = {{.category = Category::activations, .most_bytes = 30 * kGiB, .line = 20},
                      {.phase = budget::Phase::backward, .most_bytes = 30 * kGiB, .line = 21}};
  const std::vector<ci::JobFinding> findings = ci::judge(input).findings;
  ASSERT_EQ(findings.size(), 4U);
  EXPECT_EQ(findings[0].verdict, Verdict::pass);
  EXPECT_EQ(findings[1].line,
            "FAIL pangu rank 1: host memory 70.00 GiB exceeds host budget 64.00 GiB by 6.00 GiB (+9.4 %)");
  EXPECT_EQ(findings[2].line,
            "FAIL pangu rank 0: category activations 40.00 GiB exceeds limit 30.00 GiB by 10.00 GiB (+33.3 %)");
  EXPECT_EQ(
      findings[3].line,
      "NEAR pangu: limit 30.00 GiB for peak of backward is held against no rank: the planned figures do not tell it");
  EXPECT_EQ(findings[3].where.line, 21);
}

TEST(CiJudgement, WhatIsAllOfABudgetEqualsIt) {
  EXPECT_EQ(ci::judge(input_of(holding({60 * kGiB}))).findings[0].line,
            "PASS pangu rank 0: peak 60.00 GiB equals budget 60.00 GiB");
}

TEST(CiJudgement, PointsAtTheLineThatControlsMost) {
  ci::JobInput input = input_of(holding({0}));
  input.holdings.ranks[0] = rank_of(
      0, {held("small", Category::parameters, kGiB, {{"models/x.yaml", 3, "model.hidden: 7"}}),
          held("large", Category::activations, 70 * kGiB, {{"", 0, "default"}, {"models/x.yaml", 9, "layers: 61"}})});
  EXPECT_EQ(ci::judge(input).findings[0].where.line, 9);
  input.job.limits = {{.category = Category::parameters, .most_bytes = 1}};
  EXPECT_EQ(ci::judge(input).findings[1].where.line, 3);
  for (budget::HeldStorage& storage : input.holdings.ranks[0].storages) storage.controls.clear();
  EXPECT_EQ(ci::judge(input).findings[0].where, (budget::Control{.file = "tidemark-budget.yaml", .line = 2}));
  input.budget_file.clear();
  EXPECT_EQ(ci::judge(input).findings[0].where, (budget::Control{.file = "models/pangu.yaml"}));
}

TEST(CiJudgement, WithNothingToHoldItAgainstItDoesNotPass) {
  ci::JobInput input = input_of(holding({kGiB}));
  input.job.capacity_bytes.reset();
  const ci::JobResult result = ci::judge(input);
  EXPECT_EQ(ci::verdict_of(result), ci::GateVerdict::near);
  EXPECT_EQ(result.findings[0].line,
            "NEAR pangu: there is nothing to hold it against; add `capacity: 64GiB`, limits or a baseline");
}

TEST(CiJudgement, ALineIsOneLine) {
  ci::JobInput input = input_of(holding({kOver}));
  input.holdings.ranks[0].peak_at = "a\nb";
  EXPECT_EQ(ci::judge(input).findings[0].line.find('\n'), std::string::npos);
  EXPECT_EQ(ci::unreadable({}, "a.yaml:1: b\nc").error, "a.yaml:1: b?c");
}

}  // namespace
}  // namespace tidemark
