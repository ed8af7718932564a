#include "integrations/ci/diff_result.h"

#include <gtest/gtest.h>

#include "tests/ci/held.h"

namespace tidemark {
namespace {

using testing::holding;

ci::DiffResult diff(const std::vector<Bytes>& before, const std::vector<Bytes>& after,
                    std::optional<budget::Tolerance> allowed) {
  return ci::diff_of({.label = "a.json"}, holding(before), {.label = "b.json"}, holding(after), allowed, "0.1.0");
}

TEST(CiDiff, FailsOnGrowthWhereAsked) {
  EXPECT_EQ(ci::exit_status(diff({50 * kGiB}, {60 * kGiB}, std::nullopt), false), 0);
  EXPECT_EQ(ci::exit_status(diff({50 * kGiB}, {60 * kGiB}, budget::Tolerance{.percent = 2}), false), 1);
  EXPECT_EQ(ci::exit_status(diff({50 * kGiB}, {60 * kGiB}, budget::Tolerance{.percent = 2}), true), 0);
  EXPECT_EQ(ci::exit_status(diff({50 * kGiB}, {51 * kGiB}, budget::Tolerance{.percent = 2}), false), 0);
}

TEST(CiDiff, OfWhatWasNotUnderstoodOnEitherSideIsNearAtBest) {
  const auto diff_with = [](bool before, bool after, Bytes bytes, std::optional<budget::Tolerance> allowed) {
    budget::Holdings held_before = holding({50 * kGiB}), held_after = holding({bytes});
    held_before.is_understood = before;
    held_after.is_understood = after;
    held_after.doubts = {"b.sh:4: --my-buffer is not known"};
    return ci::diff_of({.label = "a.sh"}, held_before, {.label = "b.sh"}, held_after, allowed, "0.1.0");
  };
  const budget::Tolerance allowed{.percent = 2};
  EXPECT_EQ(diff_with(true, true, 50 * kGiB, allowed).verdict, budget::Verdict::pass);
  EXPECT_EQ(diff_with(false, true, 50 * kGiB, allowed).verdict, budget::Verdict::near);
  EXPECT_EQ(diff_with(true, false, 50 * kGiB, allowed).verdict, budget::Verdict::near);
  EXPECT_EQ(diff_with(true, false, 60 * kGiB, allowed).verdict, budget::Verdict::fail);
  EXPECT_EQ(diff_with(true, false, 50 * kGiB, std::nullopt).verdict, budget::Verdict::pass);  // of nothing it fails on
  EXPECT_EQ(diff_with(true, false, 50 * kGiB, allowed).line,
            "NEAR a.sh -> b.sh rank 0: peak 50.00 GiB equals former peak 50.00 GiB; growth of 2 % is allowed; not all "
            "of its input was understood, so nothing says how far off this is: b.sh:4: --my-buffer is not known");
}

TEST(CiDiff, SaysItInOneLine) {
  EXPECT_EQ(diff({50 * kGiB, 50 * kGiB}, {50 * kGiB, 60 * kGiB}, budget::Tolerance{.percent = 2}).line,
            "FAIL a.json -> b.json rank 1: peak 60.00 GiB exceeds former peak 50.00 GiB by 10.00 GiB (+20.0 %); growth "
            "of 2 % "
            "is allowed");
  EXPECT_EQ(diff({50 * kGiB}, {40 * kGiB}, std::nullopt).line,
            "DIFF a.json -> b.json rank 0: peak 40.00 GiB is 10.00 GiB below former peak 50.00 GiB (-20.0 %)");
}

// Of a measured baseline with several runs growth is counted from the highest, and what runs differ by is no failure.
TEST(CiDiff, InsideTheSpreadOfRunsNeverFails) {
  constexpr auto kMeasured = budget::Basis::measured;
  ci::BaselineJob job = ci::baseline_of("nightly", {}, holding({50 * kGiB}, kMeasured));
  ASSERT_TRUE(ci::add_run(job, {}, holding({53 * kGiB}, kMeasured)).ok());
  const auto against = [&job](Bytes after, const ci::BaselineJob* baseline) {
    return ci::diff_of({.label = "b.json, nightly", .basis = kMeasured}, ci::holdings_of(job),
                       {.label = "run", .basis = kMeasured}, holding({after}, kMeasured),
                       budget::Tolerance{.percent = 1}, "0.1.0", baseline);
  };
  EXPECT_EQ(against(53 * kGiB, &job).verdict, budget::Verdict::pass);
  EXPECT_EQ(against(56 * kGiB, &job).verdict, budget::Verdict::near);
  EXPECT_EQ(ci::exit_status(against(56 * kGiB, &job), false), 0);
  EXPECT_EQ(against(56 * kGiB, &job).line,
            "NEAR b.json, nightly -> run rank 0: peak 56.00 GiB exceeds former peak 53.00 GiB by 3.00 GiB (+5.7 %); "
            "growth of 1 % is allowed");
  EXPECT_EQ(against(56 * kGiB + 1, &job).verdict, budget::Verdict::fail);
  EXPECT_EQ(against(56 * kGiB, nullptr).verdict, budget::Verdict::fail);
}

}  // namespace
}  // namespace tidemark
