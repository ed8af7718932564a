// Jobs under capacities, planned.

#include "planner/capacity_lines.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/verify.h"
#include "planner/graph_build/load_shape.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"
#include "tests/support/random_job.h"

namespace tidemark::plan {
namespace {

using Level = graph_build::MoeSpec::CapacityLevel;

/// 512 tokens of 4 devices with two experts each: 1024 rows a device, 512 an expert.
graph_build::JobSpec group_of_four() {
  graph_build::JobSpec job = testing::small_job();
  job.model.layers = testing::layer_kinds(0, 2);
  job.model.mtp_layers = 0;
  job.parallel.data = job.parallel.expert = 4;
  job.parallel.global_batch = 8;
  job.model.sequence = 512;
  job.model.moe.width = 1024;
  job.expert_load = {.coefficient_of_variation = 0.3};
  testing::fill_slots(job);
  return job;
}

PlanRequest request_of(graph_build::JobSpec job) {
  return {.job = std::move(job), .machine = testing::ascend_910b(), .policy = policies::find_policy("optimal")};
}

std::vector<CapacityLine> lines_of(const PlanRequest& request, bool pads) {
  Result<std::vector<CapacityLine>> lines = capacity_lines(request, capacity_choices(pads), {});
  EXPECT_TRUE(lines.ok()) << lines.error().message;
  return lines.ok() ? std::move(lines).value() : std::vector<CapacityLine>{};
}

TEST(CapacityLines, PaddedLoadsAreTheFactorAndDroplessIsAsWithoutACapacity) {
  const PlanRequest request = request_of(group_of_four());
  const std::vector<CapacityLine> lines = lines_of(request, true);
  ASSERT_EQ(lines.size(), 13U);
  const Result<PlanOutcome> plain = plan_step(request);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(lines[0].step.step_ns, plain.value().step.step_ns);
  EXPECT_EQ(lines[0].choice.factor, 0);
  EXPECT_GT(lines[0].least_load, 1);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const CapacityLine& line = lines[i];
    // Rows of an expert are rounded up, two on a device.
    EXPECT_NEAR(line.least_load, line.choice.factor, 2.0 / 1024 + 1e-6);
    EXPECT_GE(line.least_load, line.choice.factor - 1e-6);
    EXPECT_EQ(line.least_load, line.most_load);
    EXPECT_EQ(line.ranks, 2);
    EXPECT_EQ(line.fitting, 2);
    EXPECT_LE(line.kept_bytes, line.peak_bytes + kGiB);
    if (i == 1 || i == 7) continue;  // the first of a level
    EXPECT_GT(line.kept_bytes, lines[i - 1].kept_bytes);
    EXPECT_GE(line.step.step_ns, lines[i - 1].step.step_ns);
  }
}

TEST(CapacityLines, WithoutPaddingNoLoadIsAboveTheCapacity) {
  const std::vector<CapacityLine> lines = lines_of(request_of(group_of_four()), false);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    EXPECT_LE(lines[i].most_load, lines[i].choice.factor + 2.0 / 1024 + 1e-6);
    EXPECT_LE(lines[i].step.step_ns, lines[0].step.step_ns) << "no device has more rows than without";
    EXPECT_LE(lines[i].kept_bytes, lines[0].kept_bytes);
  }
}

TEST(CapacityLines, CountsWhatIsPlanned) {
  std::vector<int> done;
  const std::vector<CapacityChoice> choices = {{}, {.factor = 1.5, .level = Level::device, .pads = true}};
  const Result<std::vector<CapacityLine>> lines =
      capacity_lines(request_of(group_of_four()), choices, [&](int count) { done.push_back(count); });
  ASSERT_TRUE(lines.ok());
  EXPECT_EQ(done, (std::vector{0, 1}));
  EXPECT_EQ(lines.value()[1].choice, choices[1]);
}

TEST(CapacityLines, AFactorThatCannotBeIsRefused) {
  const Result<std::vector<CapacityLine>> lines = capacity_lines(request_of(group_of_four()), {{.factor = 9}}, {});
  ASSERT_FALSE(lines.ok());
  EXPECT_NE(lines.error().message.find("model.moe.capacity_factor"), std::string::npos);
}

/// Random jobs, tight: plans verify, any load of rows that are taken completes, and no rank plans for more.
TEST(CapacityPlans, HoldEveryLoadThatACapacityLeaves) {
  testing::JobGenerator jobs(77);
  int planned = 0, padded = 0;
  for (int i = 0; i < 60; ++i) {
    graph_build::JobSpec job = jobs.next();
    const double factor = 0.8 + 0.1 * jobs.below(12);
    const bool pads = jobs.below(2) == 0;
    const Level level = jobs.below(2) == 0 ? Level::expert : Level::device;
    if (job.model.moe.experts == 0) continue;
    job = with_capacity(job, {.factor = factor, .level = level, .pads = pads});
    if (jobs.below(2) == 0) job.expert_load.coefficient_of_variation = 0.2;
    PlanRequest request = request_of(job);
    const Result<PlanOutcome> kept = plan_step(request);
    ASSERT_TRUE(kept.ok()) << kept.error().message;
    Bytes floor = 0, peak = 0;
    for (const RankPlan& rank : kept.value().ranks) {
      floor = std::max(floor, rank.figures.reserve_bytes + rank.figures.static_bytes);
      peak = std::max(peak, rank.figures.reserve_bytes + rank.liveness.peak_bytes);
    }
    request.budget_bytes = floor + (peak - floor) * 7 / 10;
    const Result<PlanOutcome> outcome = plan_step(request);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    const graph_build::LoadShape shape = graph_build::load_shape(job, request.machine).value();
    for (const RankPlan& rank : outcome.value().ranks) {
      EXPECT_LE(rank.figures.load, shape.most_load());
      if (pads) {
        EXPECT_EQ(rank.figures.load, shape.most_load());
      }
      if (!rank.figures.fits) continue;
      const auto violation = verify_program(rank.graph, rank.program);
      EXPECT_FALSE(violation.has_value()) << violation->detail;
      EXPECT_EQ(rank.figures.worst_load_f, rank.program.routed.empty() ? 1 : shape.most_load()) << rank.figures.reason;
      ++planned;
      padded += pads ? 1 : 0;
    }
  }
  EXPECT_GT(planned, 20);
  EXPECT_GT(padded, 5);
}

}  // namespace
}  // namespace tidemark::plan
