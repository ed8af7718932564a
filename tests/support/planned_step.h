#pragma once
// Planned steps to carry out: random small jobs squeezed until they swap and recompute, and what every run of a sound
// program must show.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "core/dynamic_region.h"
#include "integrations/run/sim_run.h"
#include "planner/planner.h"
#include "policies/policies.h"
#include "tests/support/random_job.h"

namespace tidemark::testing {

struct PlannedStep {
  plan::PlanRequest request;
  plan::PlanOutcome outcome;
};

/// A job planned at `percent` of what keep-all takes above the static memory; nothing if that does not fit.
[[nodiscard]] inline std::optional<PlannedStep> squeeze(const graph_build::JobSpec& job, double load, int percent) {
  PlannedStep step{
      .request = {.job = job, .machine = ascend_910b(), .policy = policies::find_policy("keep-all"), .load = load}};
  Result<plan::PlanOutcome> kept = plan::plan_step(step.request);
  if (!kept) return std::nullopt;
  Bytes floor = 0, peak = 0;
  for (const plan::RankPlan& r : kept.value().ranks) {
    floor = std::max(floor, r.figures.reserve_bytes + r.figures.static_bytes);
    peak = std::max(peak, r.figures.peak_bytes);
  }
  step.request.policy = policies::find_policy("optimal");
  step.request.budget_bytes = floor + (peak - floor) * percent / 100;
  Result<plan::PlanOutcome> outcome = plan::plan_step(step.request);
  if (!outcome || !outcome.value().fits()) return std::nullopt;
  step.outcome = std::move(outcome).value();
  return step;
}

/// Random jobs that fit, with both swaps and recomputes likely. Same seed, same steps.
class StepGenerator {
 public:
  explicit StepGenerator(std::uint32_t seed) : jobs_(seed) {}

  PlannedStep next(double load = 1.2) {
    for (;;) {
      const graph_build::JobSpec job = jobs_.next();
      if (std::optional<PlannedStep> step = squeeze(job, load, 45 + jobs_.below(40))) return *std::move(step);
    }
  }
  /// With experts, at a given pressure.
  PlannedStep next_routed(double load, int percent) {
    for (;;) {
      const graph_build::JobSpec job = jobs_.next();
      if (job.model.moe.experts == 0) continue;
      std::optional<PlannedStep> step = squeeze(job, load, percent);
      if (!step) continue;
      const auto& ranks = step->outcome.ranks;
      if (std::any_of(ranks.begin(), ranks.end(), [](const plan::RankPlan& r) { return !r.program.routed.empty(); }))
        return *std::move(step);
    }
  }
  std::int32_t below(std::int32_t n) { return jobs_.below(n); }

 private:
  JobGenerator jobs_;
};

[[nodiscard]] inline run::SimRunRequest run_of(const PlannedStep& step, std::uint64_t seed = 0) {
  return {.ranks = step.outcome.ranks, .machine = step.request.machine, .schedule = {.seed = seed}};
}

/// Nothing raced, nothing was wrong, nothing was left, and no more memory was used than planned: by what the executor
/// says, and by what the simulated device had mapped, which only rounds up to granules.
inline void expect_clean(const PlannedStep& step, const run::SimRun& run, const std::string& what) {
  ASSERT_EQ(run.ranks.size(), step.outcome.ranks.size());
  for (std::size_t i = 0; i < run.ranks.size(); ++i) {
    const run::SimRankRun& rank = run.ranks[i];
    const plan::RankFigures& plan = step.outcome.ranks[i].figures;
    const std::string where = what + ", rank " + std::to_string(plan.rank);
    EXPECT_EQ(rank.races, 0) << where << ": " << (rank.race_texts.empty() ? "" : rank.race_texts.front());
    EXPECT_EQ(rank.report.mismatches, 0) << where << ": " << rank.report.first_mismatch;
    EXPECT_EQ(rank.leaks, "") << where;
    const Bytes planned = plan.peak_bytes - plan.reserve_bytes;
    EXPECT_LE(rank.report.peak_bytes, planned + rank.report.extra_peak_bytes) << where;
    EXPECT_LE(rank.statistics.peak_device_bytes, round_up(planned, kPlanGranule) + rank.report.extra_peak_bytes)
        << where;
    EXPECT_LE(rank.report.peak_bytes + plan.reserve_bytes, plan.budget_bytes) << where;
    EXPECT_LE(rank.report.host_peak_bytes, plan.host_bytes) << where;
    EXPECT_LE(rank.statistics.peak_pinned_bytes, step.request.machine.host_bytes_per_device) << where;
  }
}

/// Compute tasks, copies and messages of a step, so that a test can say that it tested something.
struct StepContent {
  std::int64_t swaps = 0, recomputes = 0, messages = 0, sections = 0;
};
[[nodiscard]] inline StepContent content_of(const PlannedStep& step) {
  StepContent content;
  for (const plan::RankPlan& rank : step.outcome.ranks) {
    content.messages += static_cast<std::int64_t>(rank.program.receives.size());
    content.sections += static_cast<std::int64_t>(rank.program.section_ends.size());
    for (const Task& task : rank.program.schedule.tasks) {
      content.swaps += task.kind == TaskKind::swap_in ? 1 : 0;
      content.recomputes += task.kind == TaskKind::recompute ? 1 : 0;
    }
  }
  return content;
}

}  // namespace tidemark::testing
