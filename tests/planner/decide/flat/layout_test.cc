// Addresses of flat schedules: nothing shares bytes, and the height is not below the peak.

#include <gtest/gtest.h>

#include <limits>

#include "core/verify.h"
#include "planner/decide/flat/plan.h"
#include "planner/layout/lay_out.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"
#include "tests/support/sanitized.h"

namespace tidemark::decide::flat {
namespace {

using testing::FlatStep;

TEST(RematLayout, OfEveryScheduleThatFitsIsValid) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  constexpr Bytes kPlenty = std::numeric_limits<Bytes>::max() / 4;
  int fitted = 0, swapped = 0;
  for (std::uint64_t seed = 0; seed < testing::cases(25U); ++seed)
    for (const bool timed : {false, true}) {
      testing::ReferenceStep step = testing::forward_and_back(seed, 8, true);
      if (timed) step = testing::with_link(std::move(step), seed, 20);
      const FlatStep flat(std::move(step));
      const StepPlan plan =
          plan_step_within(flat.problem, keep_all_peak(flat.step) * 8 / 10, {.effort = 0.005, .prove_small = false});
      if (!plan.fits()) continue;
      ++fitted;
      swapped += plan.order.swaps.empty() ? 0 : 1;
      expect_carried_out(flat, plan.order);
      const Schedule schedule = scheduled(flat, plan.order);
      const Layout layout = layout::lay_out(schedule, kPlenty, kPlenty, 1);
      EXPECT_GE(layout.device_load_bytes, plan.outcome.peak_bytes) << seed;
      for (const auto& violation : {verify_layout(schedule, layout), verify_layout_quadratic(schedule, layout)})
        EXPECT_FALSE(violation.has_value()) << seed << ": " << violation->detail;
    }
  EXPECT_GE(fitted, testing::cases(40));
  EXPECT_GE(swapped, testing::cases(30));
}

}  // namespace
}  // namespace tidemark::decide::flat
