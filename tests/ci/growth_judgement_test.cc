#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "integrations/ci/judgement.h"
#include "integrations/ci/lowered_budget.h"
#include "tests/ci/held.h"

namespace tidemark {
namespace {

using budget::Basis;
using budget::Verdict;
using testing::holding;
using testing::input_of;

ci::JobInput grown(const std::vector<Bytes>& before, const std::vector<Bytes>& after) {
  ci::JobInput input = input_of(holding(after));
  input.job.capacity_bytes = 100 * kGiB;
  input.job.growth = {.percent = 2};
  input.baseline = ci::baseline_of("pangu", {}, holding(before));
  return input;
}

ci::JobFinding growth_of(const ci::JobInput& input) {
  return ci::judge(input).findings.back();
}

TEST(CiGrowth, IsAllowedUpToItsTolerance) {
  EXPECT_EQ(growth_of(grown({50 * kGiB}, {51 * kGiB})).verdict, Verdict::pass);
  const ci::JobFinding finding = growth_of(grown({50 * kGiB}, {51 * kGiB + 1}));
  EXPECT_EQ(finding.verdict, Verdict::fail);
  EXPECT_EQ(finding.before_bytes, 50 * kGiB);
  EXPECT_EQ(finding.most_bytes, 51 * kGiB);
  EXPECT_EQ(
      growth_of(grown({50 * kGiB}, {55 * kGiB})).line,
      "FAIL pangu rank 0: peak 55.00 GiB exceeds baseline 50.00 GiB by 5.00 GiB (+10.0 %); growth of 2 % is allowed");
}

TEST(CiGrowth, IsOfEachRank) {
  const ci::JobFinding finding = growth_of(grown({50 * kGiB, 10 * kGiB}, {50 * kGiB, 20 * kGiB}));
  EXPECT_EQ(finding.verdict, Verdict::fail);
  EXPECT_EQ(finding.rank, 1U);
}

TEST(CiGrowth, ANewRankIsHeldAgainstTheHighest) {
  EXPECT_EQ(growth_of(grown({50 * kGiB}, {50 * kGiB, 51 * kGiB})).verdict, Verdict::pass);
  EXPECT_EQ(growth_of(grown({50 * kGiB}, {50 * kGiB, 52 * kGiB})).verdict, Verdict::fail);
}

/// Of two stages, told by ranks of these numbers.
budget::Holdings two_stages(std::int64_t second, const std::vector<Bytes>& peaks) {
  budget::Holdings holdings = holding(peaks, Basis::estimated);
  holdings.ranks[0].place = "pp0";
  holdings.ranks[1].place = "pp1";
  holdings.ranks[1].rank = second;
  return holdings;
}

TEST(CiGrowth, OfAnEstimateAStageIsHeldAgainstItselfWhateverItsRank) {
  ci::JobInput input = grown({}, {});
  input.holdings = two_stages(8, {60 * kGiB, 58 * kGiB});
  input.baseline = ci::baseline_of("pangu", {}, two_stages(4, {60 * kGiB, 40 * kGiB}));
  const ci::JobFinding finding = growth_of(input);
  EXPECT_EQ(finding.verdict, Verdict::fail);
  EXPECT_EQ(finding.rank, 1U);
  EXPECT_EQ(finding.before_bytes, 40 * kGiB);
  for (ci::BaselineRank& rank : input.baseline->ranks) rank.place.clear();  // as it was written before there were any
  EXPECT_EQ(growth_of(input).line, finding.line);
}

TEST(CiGrowth, OfWhatWasNotUnderstoodIsNearAtBest) {
  ci::JobInput input = grown({50 * kGiB}, {50 * kGiB});
  input.job.capacity_bytes.reset();
  EXPECT_EQ(ci::verdict_of(ci::judge(input)), ci::GateVerdict::pass);
  input.holdings.is_understood = false;
  input.holdings.doubts = {"pretrain.sh:4: --my-buffer is not known"};
  EXPECT_EQ(growth_of(input).verdict, Verdict::near);
  EXPECT_EQ(growth_of(input).line,
            "NEAR pangu rank 0: peak 50.00 GiB equals baseline 50.00 GiB; not all of its input was understood, so "
            "nothing says how far off this is: pretrain.sh:4: --my-buffer is not known");
  input.holdings = holding({55 * kGiB});
  input.holdings.is_understood = false;
  EXPECT_EQ(growth_of(input).verdict, Verdict::fail);
}

TEST(CiGrowth, ALargePartOfALargePeakDoesNotOverflow) {
  ci::JobInput input = grown({Bytes{1} << 60}, {Bytes{1} << 60});
  input.job.growth = {.percent = 1000};
  EXPECT_EQ(growth_of(input).most_bytes, (Bytes{1} << 60) + 1'000'000'000'000'000'000);
}

TEST(CiGrowth, PointsAtWhatGrewMost) {
  ci::JobInput input = grown({50 * kGiB}, {55 * kGiB});
  input.holdings.ranks[0].storages[0].controls = {{"models/x.yaml", 12, "parallel.micro_batch: 2"}};
  EXPECT_EQ(growth_of(input).where.line, 12);
}

TEST(CiGrowth, InsideTheSpreadOfRunsNeverFails) {
  ci::JobInput input = grown({}, {});
  ci::BaselineJob job = ci::baseline_of("pangu", {}, holding({50 * kGiB}, Basis::measured));
  ASSERT_TRUE(ci::add_run(job, {}, holding({53 * kGiB}, Basis::measured)).ok());
  input.baseline = job;
  input.job.growth = {.percent = 1};
  input.holdings = holding({56 * kGiB}, Basis::measured);
  EXPECT_EQ(
      growth_of(input).line,
      "NEAR pangu rank 0: measured peak 56.00 GiB exceeds baseline 53.00 GiB by 3.00 GiB (+5.7 %); growth of 1 % is "
      "allowed, and this is no more than runs differ (50.00 GiB to 53.00 GiB)");
  input.holdings = holding({56 * kGiB + 1}, Basis::measured);
  EXPECT_EQ(growth_of(input).verdict, Verdict::fail);
  input.holdings = holding({51 * kGiB}, Basis::measured);
  EXPECT_EQ(growth_of(input).verdict, Verdict::pass);
  EXPECT_TRUE(ci::judge(input).notices.empty());  // 51 GiB are not below what runs have come to
}

TEST(CiGrowth, OfAnotherBasisIsNotCompared) {
  ci::JobInput input = grown({50 * kGiB}, {90 * kGiB});
  input.holdings.basis = Basis::measured;
  const ci::JobResult result = ci::judge(input);
  EXPECT_EQ(result.findings.back().verdict, Verdict::near);
  EXPECT_NE(result.findings.back().line.find("the baseline is planned, this is measured"), std::string::npos);
  EXPECT_FALSE(result.growth.has_value());
}

TEST(CiGrowth, CanBeWaivedByName) {
  ci::JobInput input = grown({50 * kGiB}, {55 * kGiB});
  input.job.waivers = {{.owner = "a", .reason = "r", .expires = input.today, .at_most_bytes = 60 * kGiB}};
  EXPECT_EQ(growth_of(input).verdict, Verdict::fail);  // of the device total only
  input.job.waivers[0].scope.is_growth = true;
  EXPECT_EQ(growth_of(input).verdict, Verdict::near);
  EXPECT_EQ(growth_of(input).effect, ci::WaiverEffect::waived);
  input.job.waivers[0].ranks = {.kind = budget::RankChoice::Kind::listed, .listed = {0}};
  input.holdings = holding({55 * kGiB, 53 * kGiB});
  EXPECT_EQ(growth_of(input).verdict, Verdict::fail);
  EXPECT_EQ(growth_of(input).rank, 1U);
}

TEST(CiGrowth, AnImprovementSaysHowFarTheBudgetCanBeLowered) {
  ci::JobInput input = grown({50 * kGiB}, {40 * kGiB});
  input.job.near = {.percent = 3};
  const std::vector<std::string> notices = ci::judge(input).notices;
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(
      notices[0],
      "the budget can be lowered to 41.24 GiB: the highest peak fell from 50.00 GiB to 40.00 GiB (-20.0 %); `tidemark "
      "baseline update` holds on to it");
  EXPECT_TRUE(ci::judge(grown({50 * kGiB}, {49 * kGiB})).notices.empty());
}

// The figure is the capacity of the budget file, of which a reserve is taken off before the limit holds.
TEST(CiGrowth, ALoweredBudgetHasItsReserveAndPasses) {
  ci::JobInput input = grown({50 * kGiB}, {40 * kGiB});
  input.job.near = {.percent = 3};
  input.job.reserve_bytes = 3 * kGiB;
  const auto lowered = [](const ci::JobInput& judged) {
    const std::vector<std::string> notices = ci::judge(judged).notices;
    return notices.empty() ? "" : notices.front().substr(0, notices.front().find(':'));
  };
  EXPECT_EQ(lowered(input), "the budget can be lowered to 44.24 GiB");
  input.job.capacity_bytes = parse_bytes("44.24 GiB").value();
  EXPECT_EQ(ci::judge(input).findings.front().verdict, Verdict::pass);
  input.job.capacity_bytes = parse_bytes("44.23 GiB").value();
  EXPECT_EQ(ci::judge(input).findings.front().verdict, Verdict::near);
  // Of an estimate without a reserve of its own the device's is off the capacity, and its band is above the figure.
  input = grown({50 * kGiB}, {40 * kGiB});
  input.holdings = holding({40 * kGiB}, Basis::estimated);
  input.holdings.band_percent = 10;
  input.baseline = ci::baseline_of("pangu", {}, holding({50 * kGiB}, Basis::estimated));
  input.device_reserve_bytes = 5 * kGiB;
  EXPECT_EQ(lowered(input), "the budget can be lowered to 49.00 GiB");
  input.job.capacity_bytes = 49 * kGiB;
  EXPECT_EQ(ci::judge(input).findings.front().verdict, Verdict::pass);
  EXPECT_EQ(lowered(input),
            "the highest peak fell from 50.00 GiB to 40.00 GiB (-20.0 %); `tidemark baseline update` "
            "holds on to it");
}

TEST(CiGrowth, TheLoweredBudgetPasses) {
  for (const budget::Tolerance near :
       {budget::Tolerance{}, budget::Tolerance{.percent = 3}, budget::Tolerance{.bytes = kGiB},
        budget::Tolerance{.percent = 99.9, .bytes = 7}})
    for (const Bytes bytes : {Bytes{1000}, 12345 * kMiB + 677, 40 * kGiB}) {
      const Bytes least = ci::least_passing_limit(bytes, 0, near);
      budget::Holdings holdings = holding({bytes});
      EXPECT_EQ(budget::judge(holdings, {{.most_bytes = least, .near = near}})[0].verdict, Verdict::pass);
      // No more than a part in a hundred above the least: tolerances are rounded down to whole bytes.
      const Bytes lower = least - 1 - least / 100;
      EXPECT_NE(budget::judge(holdings, {{.most_bytes = lower, .near = near}})[0].verdict, Verdict::pass);
    }
}

TEST(CiGrowth, SaysWhatIsMissingOrUnchanged) {
  ci::JobInput input = grown({50 * kGiB}, {50 * kGiB + 1});
  input.inputs = {{"model", 5}};
  input.baseline->inputs = input.inputs;
  EXPECT_EQ(
      ci::judge(input).notices,
      std::vector<std::string>{
          "its files are those of the baseline: the difference comes from its settings in the budget file, or from "
          "another version of Tidemark"});
  input.baseline.reset();
  EXPECT_TRUE(ci::judge(input).notices.empty());
  input.is_baseline_expected = true;
  EXPECT_EQ(ci::judge(input).notices,
            std::vector<std::string>{"the baseline does not have this job; `tidemark baseline update` adds it"});
}

TEST(CiGrowth, ThatIsAskedForIsNearWhereTheBaselineLacksTheJob) {
  ci::JobInput input = input_of(holding({10 * kGiB}));
  input.is_baseline_expected = true;
  EXPECT_EQ(ci::verdict_of(ci::judge(input)), ci::GateVerdict::pass);
  input.is_growth_asked = true;
  const ci::JobResult result = ci::judge(input);
  EXPECT_EQ(ci::verdict_of(result), ci::GateVerdict::near);
  EXPECT_EQ(result.findings.back().kind, ci::FindingKind::growth);
  EXPECT_EQ(result.findings.back().line,
            "NEAR pangu: the baseline does not have this job, so that nothing says what it grew by; `tidemark baseline "
            "update` adds it");
}

}  // namespace
}  // namespace tidemark
