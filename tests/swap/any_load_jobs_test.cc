// The first of the random jobs of bench/any_load_jobs: each completes every step whatever its loads are, or its plan
// says beforehand that it cannot, and what would do.

#include <gtest/gtest.h>

#include "tests/support/any_load_trial.h"
#include "tests/support/sanitized.h"

namespace tidemark::swap {
namespace {

TEST(AnyLoadJobs, CompleteEveryStepOrSaySoBeforehand) {
  testing::AnyLoadCounts counts;
  const int jobs = testing::cases(16);
  for (int i = 0; i < jobs; ++i) testing::AnyLoadTrial(1, i, counts).run();
  for (const std::string& failure : counts.failures) ADD_FAILURE() << failure;
  EXPECT_EQ(counts.completed(), jobs);
  if (testing::kSanitized) return;  // too few to see everything
  EXPECT_GT(counts.fit, 0);
  EXPECT_GT(counts.named_budget, 0);
  EXPECT_EQ(counts.least_budget, counts.named_budget);
  EXPECT_GT(counts.without_host, 0);
  EXPECT_GT(counts.oversized, 100);
  EXPECT_GT(counts.in_chunks, 100);
  EXPECT_GT(counts.recomputes, 100);
}

}  // namespace
}  // namespace tidemark::swap
