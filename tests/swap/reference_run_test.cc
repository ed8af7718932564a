// The reference job at true sizes: 718B parameters, 16 ranks in one virtual time, planned by the default policy.
// TIDEMARK_SOAK_SCHEDULES and TIDEMARK_SOAK_SEED ask for more schedules than ctest runs (scripts/soak).

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "planner/simulate/simulator.h"
#include "tests/support/planned_step.h"

namespace tidemark::swap {
namespace {

using testing::expect_clean;
using testing::PlannedStep;
using testing::run_of;

constexpr double kTolerance = 0.03;

std::uint64_t count_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<std::uint64_t>(std::max(1, std::atoi(text)));
}

const PlannedStep& reference() {
  static const PlannedStep step = [] {
    PlannedStep made{.request = {.job = testing::pangu_job(),
                                 .machine = testing::ascend_910b(),
                                 .policy = policies::find_policy("optimal"),
                                 .load = 1.1}};
    made.outcome = plan::plan_step(made.request).value();
    return made;
  }();
  return step;
}

TEST(ReferenceRun, PeakAsPlannedAndTimeAsSimulated) {
  const PlannedStep& step = reference();
  ASSERT_TRUE(step.outcome.fits());
  std::vector<simulate::RankWork> work;
  for (const plan::RankPlan& rank : step.outcome.ranks)
    work.push_back(simulate::work_of(rank.graph, rank.program.schedule, rank.task_ns));
  const Result<simulate::StepTiming> timing = simulate::simulate_step(work);
  ASSERT_TRUE(timing.ok());
  run::SimRunRequest request = run_of(step);
  request.verify = true;
  const Result<run::SimRun> run = run::run_on_sim(request);
  ASSERT_TRUE(run.ok()) << run.error().message;
  expect_clean(step, run.value(), "nominal");
  const auto near = [](std::int64_t got, std::int64_t expected) {
    return std::abs(static_cast<double>(got) / static_cast<double>(expected) - 1) <= kTolerance;
  };
  EXPECT_TRUE(near(run.value().step_ns, timing.value().step_ns));
  EXPECT_TRUE(near(run.value().step_ns, step.outcome.step.step_ns));
  for (std::size_t r = 0; r < run.value().ranks.size(); ++r)
    EXPECT_TRUE(near(run.value().ranks[r].finish_ns, timing.value().ranks[r].finish_ns)) << "rank " << r;
}

/// All ranks run in each schedule: 63 schedules are 1,008 runs of a rank.
TEST(ReferenceRun, NoRaceUnderRandomSchedules) {
  const std::uint64_t first = count_from("TIDEMARK_SOAK_SEED", 1);
  const std::uint64_t count = count_from("TIDEMARK_SOAK_SCHEDULES", 63);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    run::SimRunRequest request = run_of(reference(), seed);
    request.measure_stall = false;
    request.verify = seed % 8 == 0;
    const Result<run::SimRun> run = run::run_on_sim(request);
    ASSERT_TRUE(run.ok()) << "seed " << seed << ": " << run.error().message;
    expect_clean(reference(), run.value(), "seed " + std::to_string(seed));
    if (HasFailure()) break;
  }
}

/// From the middle of the step on, every site of every rank at twice its mean.
TEST(ReferenceRun, ALoadThatRisesCompletesOnEveryRank) {
  const PlannedStep& step = reference();
  run::SimRunRequest request = run_of(step, 1);
  request.verify = true;
  request.load = [&](std::int32_t rank, SiteId site) {
    const plan::RankPlan& plan = step.outcome.ranks[static_cast<std::size_t>(rank)];
    const std::int32_t middle = plan.graph.sites.back().micro_batch / 2;
    return plan.graph.sites[row(site)].micro_batch >= middle ? 2.0 : plan.figures.load;
  };
  const Result<run::SimRun> run = run::run_on_sim(request);
  ASSERT_TRUE(run.ok()) << run.error().message;
  expect_clean(step, run.value(), "rising load");
  std::size_t oversized = 0, in_chunks = 0;
  for (const run::SimRankRun& rank : run.value().ranks) {
    oversized += rank.report.oversized.size();
    in_chunks += rank.report.sections.size();
  }
  EXPECT_GT(oversized, 1000U);
  EXPECT_GT(in_chunks, 100U);
}

/// All that routing can do: every row of the expert group on this device, in every layer of every micro-batch.
TEST(ReferenceRun, TheWorstLoadThereIsCompletesOnEveryRank) {
  const PlannedStep& step = reference();
  run::SimRunRequest request = run_of(step);
  request.measure_stall = false;
  request.check_races = false;  // 512 sections a rank in 100 chunks; the test before looks for races
  request.load = [](std::int32_t, SiteId) { return 32.0; };
  const Result<run::SimRun> run = run::run_on_sim(request);
  ASSERT_TRUE(run.ok()) << run.error().message;
  expect_clean(step, run.value(), "the worst load");
  for (const plan::RankPlan& rank : step.outcome.ranks) EXPECT_EQ(rank.figures.worst_load_f, 32.0);
}

}  // namespace
}  // namespace tidemark::swap
