#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "integrations/ci/judgement.h"
#include "tests/ci/held.h"

namespace tidemark {
namespace {

using budget::Verdict;
using ci::WaiverEffect;
using testing::holding;
using testing::input_of;

ci::Waiver waiver_until(const char* day, Bytes most) {
  return {.owner = "a@b.c", .reason = "new kernel", .expires = ci::parse_date(day).value(), .at_most_bytes = most};
}

ci::JobFinding device_finding(const ci::JobInput& input) {
  return ci::judge(input).findings.front();
}

TEST(CiWaiver, HoldsThroughItsLastDay) {
  ci::JobInput input = input_of(holding({61 * kGiB}));
  input.job.waivers = {waiver_until("2026-06-15", 62 * kGiB)};
  const ci::JobFinding waived = device_finding(input);
  EXPECT_EQ(waived.verdict, Verdict::near);
  EXPECT_EQ(waived.effect, WaiverEffect::waived);
  EXPECT_EQ(waived.line,
            "NEAR pangu rank 0: peak 61.00 GiB exceeds budget 60.00 GiB by 1.00 GiB (+1.7 %); waived by a@b.c up to "
            "62.00 GiB through 2026-06-15: new kernel");
  input.job.waivers = {waiver_until("2026-06-14", 62 * kGiB)};
  const ci::JobFinding expired = device_finding(input);
  EXPECT_EQ(expired.verdict, Verdict::fail);
  EXPECT_EQ(expired.effect, WaiverEffect::expired);
  EXPECT_EQ(
      expired.line,
      "FAIL pangu rank 0: peak 61.00 GiB exceeds budget 60.00 GiB by 1.00 GiB (+1.7 %); the waiver of a@b.c expired "
      "on 2026-06-14");
}

TEST(CiWaiver, AllowsUpToItsSize) {
  ci::JobInput input = input_of(holding({62 * kGiB}));
  input.job.waivers = {waiver_until("2026-12-31", 62 * kGiB)};
  EXPECT_EQ(device_finding(input).effect, WaiverEffect::waived);
  input.holdings = holding({62 * kGiB + 1});
  EXPECT_EQ(device_finding(input).effect, WaiverEffect::exceeded);
  EXPECT_EQ(device_finding(input).verdict, Verdict::fail);
  EXPECT_TRUE(device_finding(input).line.ends_with("; the waiver of a@b.c allows 62.00 GiB"));
}

// The highest rank is waived, and hides no lower one that is not.
TEST(CiWaiver, IsForItsRanksOnly) {
  ci::JobInput input = input_of(holding({63 * kGiB, 61 * kGiB, kGiB}));
  input.job.waivers = {waiver_until("2026-12-31", 64 * kGiB)};
  input.job.waivers[0].ranks = {.kind = budget::RankChoice::Kind::first};
  const ci::JobFinding finding = device_finding(input);
  EXPECT_EQ(finding.verdict, Verdict::fail);
  EXPECT_EQ(finding.rank, 1U);
  EXPECT_EQ(finding.bytes, 61 * kGiB);
  EXPECT_EQ(finding.effect, WaiverEffect::none);
  input.holdings = holding({63 * kGiB, 60 * kGiB, kGiB});
  EXPECT_EQ(device_finding(input).effect, WaiverEffect::waived);
}

TEST(CiWaiver, IsForWhatItNames) {
  ci::JobInput input = input_of(holding({61 * kGiB}));
  input.job.limits = {{.category = budget::Category::activations, .most_bytes = 30 * kGiB}};
  input.job.waivers = {waiver_until("2026-12-31", 62 * kGiB)};
  std::vector<ci::JobFinding> findings = ci::judge(input).findings;
  EXPECT_EQ(findings[0].effect, WaiverEffect::waived);
  EXPECT_EQ(findings[1].verdict, Verdict::fail);  // a waiver of the device total says nothing of a category
  input.job.waivers[0].scope.category = budget::Category::activations;
  findings = ci::judge(input).findings;
  EXPECT_EQ(findings[0].verdict, Verdict::fail);
  EXPECT_EQ(findings[1].effect, WaiverEffect::waived);
}

// A finding names one waiver; the other is for a rank that is above its limit as well.
TEST(CiWaiver, IsNeededByARankThatTheFindingIsNotAbout) {
  ci::JobInput input = input_of(holding({61 * kGiB, 63 * kGiB, kGiB}));
  input.job.waivers = {waiver_until("2026-12-31", 62 * kGiB), waiver_until("2026-12-31", 64 * kGiB)};
  for (const std::int64_t rank : {0, 1})
    input.job.waivers[static_cast<std::size_t>(rank)].ranks = {.kind = budget::RankChoice::Kind::listed,
                                                               .listed = {rank}};
  const ci::JobResult waived = ci::judge(input);
  EXPECT_EQ(waived.findings[0].waiver, 1U);
  EXPECT_TRUE(waived.notices.empty()) << waived.notices.front();
  input.holdings = holding({60 * kGiB, 63 * kGiB, kGiB});
  EXPECT_EQ(ci::judge(input).notices,
            std::vector<std::string>{"the waiver of a@b.c is not needed: nothing exceeds what it allows"});
}

// One device of a stage says nothing of the others, whose figures are the same row.
TEST(CiWaiver, IsForEveryRankThatAStageStandsFor) {
  ci::JobInput input = input_of(holding({61 * kGiB, kGiB}, budget::Basis::estimated));
  input.holdings.rank_count = 16;
  input.holdings.stage_stride = 8;
  input.holdings.ranks[1].rank = 8;
  input.job.waivers = {waiver_until("2026-12-31", 62 * kGiB)};
  input.job.waivers[0].ranks = {.kind = budget::RankChoice::Kind::listed, .listed = {5}};
  EXPECT_EQ(device_finding(input).verdict, Verdict::fail);
  EXPECT_EQ(device_finding(input).effect, WaiverEffect::none);
  EXPECT_EQ(ci::judge(input).notices,
            std::vector<std::string>{"the waiver of a@b.c lists some ranks of a pipeline stage (that of rank 0) and "
                                     "waives nothing there; list every rank of the stage"});
  input.job.waivers[0].ranks.listed = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(device_finding(input).effect, WaiverEffect::waived);
  EXPECT_TRUE(ci::judge(input).notices.empty());
}

TEST(CiWaiver, ForNoRankThatWasMeasuredIsSaid) {
  ci::JobInput input = input_of(holding({61 * kGiB, kGiB}, budget::Basis::measured));
  input.job.waivers = {waiver_until("2026-12-31", 62 * kGiB)};
  input.job.waivers[0].ranks = {.kind = budget::RankChoice::Kind::middle};
  EXPECT_EQ(device_finding(input).verdict, Verdict::fail);
  EXPECT_EQ(ci::judge(input).notices, std::vector<std::string>{"the waiver of a@b.c is for no rank that was measured"});
}

TEST(CiWaiver, IsSaidToBeUnneeded) {
  ci::JobInput input = input_of(holding({kGiB}));
  input.job.waivers = {waiver_until("2026-12-31", 62 * kGiB), waiver_until("2026-01-01", 62 * kGiB)};
  EXPECT_EQ(ci::judge(input).notices,
            (std::vector<std::string>{"the waiver of a@b.c is not needed: nothing exceeds what it allows",
                                      "the waiver of a@b.c expired on 2026-01-01 and is not needed; remove it"}));
}

}  // namespace
}  // namespace tidemark
