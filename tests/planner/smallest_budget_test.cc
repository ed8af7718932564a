// The smallest budget that an answer names is one that does.

#include <gtest/gtest.h>

#include <random>

#include "planner/planner.h"
#include "tests/support/captured_steps.h"
#include "tests/support/sanitized.h"

namespace tidemark::plan {
namespace {

TEST(SmallestBudget, OfACapturedStepDoes) {
  std::mt19937 random(41);
  int named = 0;
  for (int i = 0; i < testing::cases(12); ++i) {
    PlanRequest request = testing::captured_request(testing::captured_training(random, 3 + i % 6), Bytes{1} << 50);
    request.machine.host_bytes_per_device = request.machine.host_bytes_per_node = i % 2 == 0 ? kGiB : 0;
    request.step->effort = 0.0005;
    const Bytes keep_all = plan_step(request).value().ranks.front().figures.peak_bytes;
    for (const Bytes percent : {1, 55}) {
      request.budget_bytes = keep_all * percent / 100;
      const PlanOutcome asked = plan_step(request).value();
      if (asked.fits()) break;
      const Bytes smallest = asked.ranks.front().figures.smallest_budget_bytes;
      if (smallest == 0) continue;
      ++named;
      request.budget_bytes = smallest;
      const PlanOutcome again = plan_step(request).value();
      EXPECT_TRUE(again.fits()) << "step " << i << " at " << percent << " %: " << smallest << " B do not do; then "
                                << again.ranks.front().figures.smallest_budget_bytes << " B are named";
    }
  }
  EXPECT_GT(named, testing::cases(12));
}

}  // namespace
}  // namespace tidemark::plan
