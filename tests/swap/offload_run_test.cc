// Budgets below what persists: optimizer state rests in host memory and passes through the device, on simulated devices
// under many schedules and on real bytes.

#include <gtest/gtest.h>

#include <algorithm>

#include "core/verify.h"
#include "integrations/run/run_plan.h"
#include "tests/support/planned_step.h"
#include "tests/support/sanitized.h"

namespace tidemark::swap {
namespace {

using testing::expect_clean;
using testing::PlannedStep;
using testing::run_of;

/// What persists, wherever it rests, and reserves.
Bytes persistent_bytes(const plan::RankFigures& f) {
  return f.reserve_bytes + f.static_bytes + f.offloaded_bytes;
}

/// A random job of one rank, planned at a budget below its static memory; nothing if that cannot be.
std::optional<PlannedStep> below_static(const graph_build::JobSpec& job) {
  PlannedStep step{
      .request = {
          .job = job, .machine = testing::ascend_910b(), .policy = policies::find_policy("keep-all"), .load = 1.2}};
  const Result<plan::PlanOutcome> kept = plan::plan_step(step.request);
  if (!kept) return std::nullopt;
  Bytes budget = 1000 * kTiB;
  for (const plan::RankPlan& r : kept.value().ranks) budget = std::min(budget, persistent_bytes(r.figures));
  step.request.budget_bytes = budget - kMiB;
  step.request.policy = policies::find_policy("optimal");
  Result<plan::PlanOutcome> outcome = plan::plan_step(step.request);
  if (!outcome || !outcome.value().fits()) return std::nullopt;
  step.outcome = std::move(outcome).value();
  return step;
}

std::vector<PlannedStep> steps_below_static(std::size_t count) {
  std::vector<PlannedStep> steps;
  testing::JobGenerator jobs(11);
  for (int tried = 0; steps.size() < count && tried < 400; ++tried) {
    graph_build::JobSpec job = jobs.next();
    job.parallel.distributed_optimizer = false;
    if (std::optional<PlannedStep> step = below_static(job)) steps.push_back(*std::move(step));
  }
  return steps;
}

TEST(OffloadRun, ABudgetBelowStaticMemoryIsKeptUnderEverySchedule) {
  constexpr std::size_t kSteps = testing::cases(std::size_t{8});
  const std::vector<PlannedStep> steps = steps_below_static(kSteps);
  ASSERT_EQ(steps.size(), kSteps);
  for (const PlannedStep& step : steps) {
    for (const plan::RankPlan& rank : step.outcome.ranks) {
      const plan::RankFigures& f = rank.figures;
      EXPECT_GT(persistent_bytes(f), f.budget_bytes);
      EXPECT_GT(f.offloaded_bytes, 0);
      EXPECT_LE(f.reserve_bytes + f.static_bytes, f.budget_bytes);
      const auto violation = verify_program(rank.graph, rank.program);
      EXPECT_FALSE(violation.has_value()) << violation->detail;
    }
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      run::SimRunRequest request = run_of(step, seed);
      request.verify = true;
      const Result<run::SimRun> run = run::run_on_sim(request);
      ASSERT_TRUE(run.ok()) << run.error().message;
      expect_clean(step, run.value(), "seed " + std::to_string(seed));
      if (seed > 0) continue;
      // Filling what rests in host memory takes none of the step's time; the device's copies cost no compute time.
      EXPECT_LE(run.value().step_ns, step.outcome.step.step_ns);
    }
  }
}

TEST(OffloadRun, RealBytesComeBackUpdated) {
  for (PlannedStep& step : steps_below_static(2)) {
    const Result<run::RunOutcome> run =
        run::run_plan(std::move(step.outcome), step.request.machine,
                      {.device = run::RunDevice::host, .scale = testing::kSanitized ? 64 : 16, .verify = true});
    ASSERT_TRUE(run.ok()) << run.error().message;
    EXPECT_TRUE(run.value().problems.empty()) << run.value().problems.front();
    for (const run::RankOutcome& rank : run.value().ranks)
      EXPECT_EQ(rank.report.mismatches, 0) << rank.report.first_mismatch;
  }
}

}  // namespace
}  // namespace tidemark::swap
