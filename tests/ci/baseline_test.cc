#include "integrations/ci/baseline.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ci/held.h"

namespace tidemark {
namespace {

using testing::held;
using testing::holding;
using testing::rank_of;

constexpr auto kMeasured = budget::Basis::measured;

TEST(CiBaseline, HoldsWhatGrowthIsCountedFrom) {
  const budget::Holdings now = holding({3 * kGiB, 5 * kGiB});
  const ci::BaselineJob job = ci::baseline_of("pangu", {{"model", 7}, {"device", 9}}, now);
  EXPECT_EQ(job.inputs, (std::vector<ci::InputHash>{{"device", 9}, {"model", 7}}));
  EXPECT_TRUE(job.runs.empty());
  const budget::Growth growth = budget::growth_of(ci::holdings_of(job), now);
  EXPECT_TRUE(growth.storages.empty());
  EXPECT_EQ(growth.before_bytes, 8 * kGiB);
  EXPECT_EQ(growth.ranks[1].category_before, growth.ranks[1].category_after);
}

TEST(CiBaseline, CategoriesAlwaysAddUp) {
  budget::Holdings now = holding({kGiB});
  now.ranks[0].peak_bytes += 5;
  const ci::BaselineJob job = ci::baseline_of("a", {}, now);
  EXPECT_EQ(job.ranks[0].by_category.back(), 5);
}

TEST(CiBaseline, KeepsJobsByName) {
  ci::Baseline baseline;
  for (const char* name : {"b", "a", "c", "b"}) ci::put_job(baseline, ci::baseline_of(name, {}, holding({kGiB})));
  ASSERT_EQ(baseline.jobs.size(), 3U);
  EXPECT_EQ(baseline.jobs[1].name, "b");
  EXPECT_EQ(ci::find_job(baseline, "c"), &baseline.jobs[2]);
  EXPECT_EQ(ci::find_job(baseline, "d"), nullptr);
  ci::keep_jobs(baseline, {"c", "x"});
  ASSERT_EQ(baseline.jobs.size(), 1U);
  EXPECT_EQ(baseline.jobs[0].name, "c");
}

TEST(CiBaseline, AddsRunsWithTheirSpread) {
  ci::BaselineJob job = ci::baseline_of("m", {{"run", 1}}, holding({60 * kGiB, 50 * kGiB}, kMeasured));
  ASSERT_TRUE(ci::add_run(job, {{"run", 2}}, holding({61 * kGiB, 49 * kGiB, 7 * kGiB}, kMeasured)).ok());
  EXPECT_EQ(job.runs.size(), 2U);
  EXPECT_EQ(ci::spread_of(job, 0)->least_bytes, 60 * kGiB);
  EXPECT_EQ(ci::spread_of(job, 0)->most_bytes, 61 * kGiB);
  EXPECT_EQ(ci::spread_of(job, 1)->width_bytes(), kGiB);
  EXPECT_EQ(ci::spread_of(job, 2)->width_bytes(), 0);
  EXPECT_FALSE(ci::spread_of(job, 3).has_value());
  // Each rank is as in the run where it was highest.
  EXPECT_EQ(job.ranks[0].peak_bytes, 61 * kGiB);
  EXPECT_EQ(job.ranks[1].peak_bytes, 50 * kGiB);
  EXPECT_EQ(job.ranks[2].peak_bytes, 7 * kGiB);
}

TEST(CiBaseline, RefusesARunThatIsNoneOrKnown) {
  ci::BaselineJob planned = ci::baseline_of("p", {}, holding({kGiB}));
  EXPECT_EQ(ci::add_run(planned, {}, holding({kGiB}, kMeasured)).error().message,
            "only a measured job has runs; this one is planned");
  ci::BaselineJob measured = ci::baseline_of("m", {{"run", 1}}, holding({kGiB}, kMeasured));
  const ci::BaselineJob before = measured;
  EXPECT_FALSE(ci::add_run(measured, {{"run", 1}}, holding({kGiB}, kMeasured)).ok());
  EXPECT_FALSE(ci::add_run(measured, {{"run", 2}}, holding({kGiB})).ok());
  EXPECT_EQ(measured, before);
  for (std::uint64_t i = 2; i <= ci::kMostBaselineRuns; ++i)
    ASSERT_TRUE(ci::add_run(measured, {{"run", i}}, holding({kGiB}, kMeasured)).ok());
  EXPECT_FALSE(ci::add_run(measured, {{"run", 1000}}, holding({kGiB}, kMeasured)).ok());
}

TEST(CiBaseline, KnowsItsRunsAndTheJobsBeyondABudgetFile) {
  const ci::BaselineJob job =
      ci::baseline_of("nightly", {{"measured", 1}, {"measured", 2}}, holding({kGiB}, budget::Basis::measured));
  EXPECT_TRUE(ci::has_run(job, {{"measured", 2}}));
  EXPECT_FALSE(ci::has_run(job, {{"measured", 2}, {"measured", 3}}));
  EXPECT_FALSE(ci::has_run(job, {})) << "nothing says which run it is";
  ci::Baseline baseline{.jobs = {job}};
  EXPECT_EQ(ci::names_beyond(baseline, {"weekly"}), std::vector<std::string>{"nightly"});
  EXPECT_TRUE(ci::names_beyond(baseline, {"nightly", "weekly"}).empty());
}

}  // namespace
}  // namespace tidemark
