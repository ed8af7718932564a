#include "integrations/ci/missing_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "integrations/ci/diff_result.h"
#include "integrations/ci/judgement.h"
#include "tests/ci/held.h"

namespace tidemark {
namespace {

using budget::Basis;
using budget::Verdict;
using testing::holding;
using testing::input_of;

/// Of a measured baseline of three ranks, rank 2 the highest, the first two.
ci::JobInput without_rank_two() {
  ci::JobInput input = input_of(holding({10 * kGiB, 9 * kGiB}, Basis::measured));
  input.job.at = {{"measured", 9}};
  input.baseline =
      ci::baseline_of("pangu", {}, holding({10 * kGiB, 9 * kGiB, 20 * kGiB + 512 * kMiB}, Basis::measured));
  return input;
}

const ci::JobFinding* finding_of(const ci::JobResult& result, ci::FindingKind kind) {
  const auto found = std::ranges::find(result.findings, kind, &ci::JobFinding::kind);
  return found == result.findings.end() ? nullptr : &*found;
}

TEST(CiMissingRank, OfTheBaselineIsNearAndNoBudgetIsLowered) {
  const ci::JobResult result = ci::judge(without_rank_two());
  EXPECT_EQ(ci::verdict_of(result), ci::GateVerdict::near);
  const ci::JobFinding* missing = finding_of(result, ci::FindingKind::rank);
  ASSERT_NE(missing, nullptr);
  EXPECT_EQ(missing->line,
            "NEAR pangu: rank 2 (20.50 GiB in the baseline) was not measured: nothing says that its limits are kept; "
            "measure it again, or agree to the ranks there are with `tidemark baseline update`");
  EXPECT_EQ(missing->where, (budget::Control{"tidemark-budget.yaml", 9, ""}));
  EXPECT_TRUE(result.notices.empty()) << result.notices.front();
}

TEST(CiMissingRank, WithoutABaselineIsThatOfAFolderThatHoldsNothing) {
  ci::JobInput input = input_of(holding({10 * kGiB}, Basis::measured));
  EXPECT_EQ(ci::verdict_of(ci::judge(input)), ci::GateVerdict::pass);
  input.holdings.untold_ranks = {1, 7};
  const ci::JobResult result = ci::judge(input);
  EXPECT_EQ(ci::verdict_of(result), ci::GateVerdict::near);
  EXPECT_EQ(finding_of(result, ci::FindingKind::rank)->line,
            "NEAR pangu: ranks 1, 7 were not measured: nothing says that its limits are kept; measure them again");
}

/// `tidemark plan --ranks 1 --out plan.json`, of a job of four.
TEST(CiMissingRank, OfAPlanOfSomeRanksIsNear) {
  ci::JobInput input = input_of(holding({10 * kGiB}));
  input.holdings.ranks[0].rank = 1;
  input.holdings.rank_count = 4;
  input.job.at = {{"plan", 9}};
  input.baseline = ci::baseline_of("pangu", {}, holding({10 * kGiB, 20 * kGiB, 10 * kGiB, 30 * kGiB}));
  const ci::JobResult result = ci::judge(input);
  EXPECT_EQ(ci::verdict_of(result), ci::GateVerdict::near);
  const ci::JobFinding* missing = finding_of(result, ci::FindingKind::rank);
  ASSERT_NE(missing, nullptr);
  EXPECT_EQ(missing->line,
            "NEAR pangu: ranks 0, 2, 3 were not planned, of them rank 3 with 30.00 GiB in the baseline: nothing says "
            "that its limits are kept; plan them as well");
  EXPECT_EQ(missing->subject, "ranks planned");
  EXPECT_EQ(missing->where, (budget::Control{"tidemark-budget.yaml", 9, ""}));
  EXPECT_TRUE(result.notices.empty()) << result.notices.front();
}

TEST(CiMissingRank, IsNoneOfAPlanOfEveryRank) {
  ci::JobInput input = input_of(holding({10 * kGiB, 9 * kGiB}));
  input.holdings.rank_count = 2;
  EXPECT_EQ(finding_of(ci::judge(input), ci::FindingKind::rank), nullptr);
  // Of a job that shrank, and where its ranks are not known.
  input.baseline = ci::baseline_of("pangu", {}, holding({10 * kGiB, 9 * kGiB, 20 * kGiB, 20 * kGiB}));
  EXPECT_EQ(finding_of(ci::judge(input), ci::FindingKind::rank), nullptr);
  input.holdings.rank_count = 0;
  EXPECT_EQ(finding_of(ci::judge(input), ci::FindingKind::rank), nullptr);
  EXPECT_EQ(ci::verdict_of(ci::judge(input)), ci::GateVerdict::pass);
}

TEST(CiMissingRank, OfManyTheHighestIsNamed) {
  std::vector<ci::MissingRank> missing;
  for (std::int64_t rank = 0; rank < 11; ++rank)
    missing.push_back({.rank = rank, .before_bytes = rank == 9 ? 2 * kGiB : kGiB});
  EXPECT_EQ(ci::missing_text(missing, Basis::measured, "baseline"),
            "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more were not measured, of them rank 9 with 2.00 GiB in the baseline");
}

TEST(CiMissingRank, KeepsADiffFromPassing) {
  const budget::Holdings before = holding({kGiB, 2 * kGiB}, Basis::measured), after = holding({kGiB}, Basis::measured);
  const auto diff = [&](std::optional<budget::Tolerance> allowed) {
    return ci::diff_of({.label = "a", .basis = Basis::measured}, before, {.label = "b", .basis = Basis::measured},
                       after, allowed, "0.1.0");
  };
  EXPECT_EQ(diff(budget::Tolerance{.percent = 2}).verdict, Verdict::near);
  EXPECT_EQ(diff(std::nullopt).verdict, Verdict::pass);
  EXPECT_EQ(diff(std::nullopt).notes,
            std::vector<std::string>{"rank 1 (2.00 GiB in the run before) was not measured: nothing says what it came "
                                     "to"});
}

TEST(CiMissingRank, OfAPlanKeepsADiffFromPassing) {
  const budget::Holdings before = holding({kGiB, 2 * kGiB});
  budget::Holdings after = holding({kGiB});
  after.rank_count = 2;
  const ci::DiffResult diff =
      ci::diff_of({.label = "a.json"}, before, {.label = "b.json"}, after, budget::Tolerance{.percent = 2}, "0.1.0");
  EXPECT_EQ(diff.verdict, Verdict::near);
  EXPECT_EQ(diff.notes, std::vector<std::string>{"rank 1 (2.00 GiB in the plan before) was not planned: nothing says "
                                                 "what it came to"});
}

}  // namespace
}  // namespace tidemark
