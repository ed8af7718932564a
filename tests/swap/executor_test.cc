// Whole small steps on simulated devices: random jobs, planned under pressure, every rank, messages matched, contents
// checked, durations as estimated and at random.

#include "swap/executor.h"

#include <gtest/gtest.h>

#include "planner/simulate/simulator.h"
#include "swap/bound_program.h"
#include "tests/support/planned_step.h"
#include "tests/support/sanitized.h"

namespace tidemark::swap {
namespace {

using testing::content_of;
using testing::expect_clean;
using testing::PlannedStep;
using testing::run_of;
using testing::StepContent;
using testing::StepGenerator;

TEST(Executor, RandomStepsAreCleanUnderRandomSchedules) {
  StepGenerator generator(7);
  StepContent all;
  for (int i = 0; i < testing::cases(12); ++i) {
    const PlannedStep step = generator.next();
    const StepContent content = content_of(step);
    all.swaps += content.swaps;
    all.recomputes += content.recomputes;
    all.messages += content.messages;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      run::SimRunRequest request = run_of(step, seed);
      request.verify = true;
      const Result<run::SimRun> run = run::run_on_sim(request);
      const std::string what = "job " + std::to_string(i) + ", seed " + std::to_string(seed);
      ASSERT_TRUE(run.ok()) << what << ": " << run.error().message;
      expect_clean(step, run.value(), what);
    }
  }
  EXPECT_GT(all.swaps, testing::cases(50));
  EXPECT_GT(all.recomputes, testing::cases(100));
  EXPECT_GT(all.messages, testing::cases(100));
}

TEST(Executor, TakesTheTimeThatTheSimulatorSays) {
  StepGenerator generator(11);
  for (int i = 0; i < testing::cases(12); ++i) {
    const PlannedStep step = generator.next();
    std::vector<simulate::RankWork> work;
    for (const plan::RankPlan& rank : step.outcome.ranks)
      work.push_back(simulate::work_of(rank.graph, rank.program.schedule, rank.task_ns));
    const Result<simulate::StepTiming> timing = simulate::simulate_step(work);
    ASSERT_TRUE(timing.ok()) << timing.error().message;
    const Result<run::SimRun> run = run::run_on_sim(run_of(step));
    ASSERT_TRUE(run.ok()) << run.error().message;
    for (std::size_t r = 0; r < work.size(); ++r) {
      const auto expected = static_cast<double>(timing.value().ranks[r].finish_ns);
      const auto got = static_cast<double>(run.value().ranks[r].finish_ns);
      EXPECT_NEAR(got / expected, 1, 0.001) << "job " << i << ", rank " << r;
    }
  }
}

TEST(Executor, RunsOneRankAloneAndSaysSo) {
  const PlannedStep step = StepGenerator(3).next();
  run::SimRunRequest request = run_of(step);
  request.ranks = request.ranks.first(1);
  request.match_messages = false;
  request.verify = true;
  const Result<run::SimRun> run = run::run_on_sim(request);
  ASSERT_TRUE(run.ok()) << run.error().message;
  const RunReport& report = run.value().ranks.front().report;
  EXPECT_EQ(report.mismatches, 0);
  const bool has_messages = !step.outcome.ranks.front().program.receives.empty();
  const bool warned = std::any_of(report.warnings.begin(), report.warnings.end(),
                                  [](const RunWarning& w) { return w.kind == RunWarning::Kind::messages_not_matched; });
  EXPECT_EQ(warned, has_messages);
}

TEST(Executor, ScalesSizesAndRefusesScalesThatBreakWords) {
  const PlannedStep step = StepGenerator(5).next();
  for (const std::int64_t scale : {1, 2, 16, 64}) {
    run::SimRunRequest request = run_of(step);
    request.scale = scale;
    request.verify = true;
    const Result<run::SimRun> run = run::run_on_sim(request);
    ASSERT_TRUE(run.ok()) << run.error().message;
    for (std::size_t i = 0; i < run.value().ranks.size(); ++i) {
      const RunReport& report = run.value().ranks[i].report;
      EXPECT_EQ(report.mismatches, 0) << scale;
      EXPECT_EQ(run.value().ranks[i].races, 0) << scale;
      const Bytes height = step.outcome.ranks[i].program.layout.arenas.front().height_bytes;
      EXPECT_EQ(report.planned_bytes, (height + scale - 1) / scale);
    }
  }
  for (const std::int64_t scale : {0, 3, 128, -2}) {
    run::SimRunRequest request = run_of(step);
    request.scale = scale;
    const Result<run::SimRun> run = run::run_on_sim(request);
    ASSERT_FALSE(run.ok()) << scale;
    EXPECT_EQ(run.error().code, Error::Code::bad_input);
  }
}

/// One step after the other with one executor: nothing of the first reaches the second.
TEST(Executor, RunsStepAfterStep) {
  const PlannedStep step = StepGenerator(9).next();
  const plan::RankPlan& plan = step.outcome.ranks.front();
  const std::unique_ptr<SimDevice> device = make_sim_device(run::sim_options_for(plan, step.request.machine));
  {
    Result<std::unique_ptr<Executor>> executor = Executor::open(
        plan.program, *device,
        {.verify = true, .load = [](SiteId site) { return 0.8 + 0.4 * static_cast<double>(row(site) % 5); }});
    ASSERT_TRUE(executor.ok()) << executor.error().message;
    for (int i = 0; i < 3; ++i) {
      const Status issued = executor.value()->issue();
      ASSERT_TRUE(issued.ok()) << issued.error().message;
      const Result<RunReport> report = executor.value()->finish();
      ASSERT_TRUE(report.ok()) << report.error().message;
      EXPECT_EQ(report.value().mismatches, 0) << report.value().first_mismatch;
    }
  }
  EXPECT_EQ(device->race_count(), 0) << to_string(device->races().front());
  EXPECT_EQ(device->leaks(), "");
}

/// Few events: the host waits for old ones instead of failing.
TEST(Executor, KeepsWithinTheEventsThereAre) {
  const PlannedStep step = StepGenerator(7).next();
  const plan::RankPlan& plan = step.outcome.ranks.front();
  for (const std::int64_t limit : {2, 3, 5, 65536}) {
    SimOptions options = run::sim_options_for(plan, step.request.machine);
    options.event_limit = limit;
    const std::unique_ptr<SimDevice> device = make_sim_device(options);
    Result<std::unique_ptr<Executor>> executor = Executor::open(plan.program, *device, {.verify = true});
    ASSERT_TRUE(executor.ok()) << executor.error().message;
    const Status issued = executor.value()->issue();
    ASSERT_TRUE(issued.ok()) << issued.error().message;
    const Result<RunReport> report = executor.value()->finish();
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_LE(report.value().events_peak, limit);
    EXPECT_EQ(report.value().mismatches, 0);
    EXPECT_EQ(device->race_count(), 0) << to_string(device->races().front());
  }
}

}  // namespace
}  // namespace tidemark::swap
