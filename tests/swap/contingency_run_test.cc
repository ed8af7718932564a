// Loads other than the planned one: up to the limit every step completes, beyond it there is a refusal and nothing is
// overwritten.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "core/dynamic_region.h"
#include "tests/support/planned_step.h"

namespace tidemark::swap {
namespace {

using testing::expect_clean;
using testing::PlannedStep;
using testing::run_of;
using testing::StepGenerator;

double limit_of(const PlannedStep& step, std::int32_t rank) {
  return step.outcome.ranks[static_cast<std::size_t>(rank)].program.contingency_limit_f;
}

/// Every site at the limit needs more granules than the dynamic region has: without holes of the plan it would refuse.
bool needs_holes(const Program& program) {
  std::int64_t most = 0;
  for (const std::int64_t granules : dynamic_demand(program, program.contingency_limit_f))
    most = std::max(most, granules);
  return most > dynamic_region(program.layout.arenas.front(), kPlanGranule).count;
}

struct Seen {
  std::size_t oversized = 0, swaps = 0, recomputes = 0;
};

void count(const run::SimRun& run, Seen& seen) {
  for (const run::SimRankRun& rank : run.ranks) {
    seen.oversized += rank.report.oversized.size();
    for (const ContingencyRecord& record : rank.report.contingencies)
      ++(record.kind == Contingency::Kind::swap ? seen.swaps : seen.recomputes);
  }
}

/// Each site its own load, anywhere from none to the limit, some exactly at it.
TEST(ContingencyRun, AnyLoadsUpToTheLimitComplete) {
  StepGenerator generator(21);
  Seen seen;
  int above = 0, with_holes = 0;
  for (int i = 0; i < 15; ++i) {
    const PlannedStep step = generator.next_routed(1.0 + 0.1 * generator.below(4), 50 + 5 * i);
    for (std::uint32_t trial = 0; trial < 3; ++trial) {
      run::SimRunRequest request = run_of(step, trial);
      request.verify = true;
      std::mt19937 random(trial + 100);
      request.load = [&](std::int32_t rank, SiteId) {
        const double limit = limit_of(step, rank);
        return trial == 0 || random() % 4 == 0 ? limit : limit * static_cast<double>(random() % 1001) / 1000;
      };
      const Result<run::SimRun> run = run::run_on_sim(request);
      const std::string what = "job " + std::to_string(i) + ", trial " + std::to_string(trial);
      ASSERT_TRUE(run.ok()) << what << ": " << run.error().message;
      expect_clean(step, run.value(), what);
      count(run.value(), seen);
    }
    for (const plan::RankPlan& rank : step.outcome.ranks) {
      above += rank.program.contingency_limit_f > rank.figures.load * 1.001 ? 1 : 0;
      with_holes += needs_holes(rank.program) ? 1 : 0;
    }
  }
  EXPECT_GT(with_holes, 3) << "no run took a hole of its plan: nothing was tested";
  EXPECT_GT(above, 3) << "no plan carries more than it was planned for: nothing was tested";
  EXPECT_GT(seen.oversized, 500U);
  EXPECT_GT(seen.swaps + seen.recomputes, 100U);
}

/// From some micro-batch on the load is at the limit.
TEST(ContingencyRun, ALoadThatRisesMidStepCompletes) {
  StepGenerator generator(22);
  for (int i = 0; i < 6; ++i) {
    const PlannedStep step = generator.next_routed(1.1, 50 + 10 * i);
    run::SimRunRequest request = run_of(step);
    request.verify = true;
    request.load = [&](std::int32_t rank, SiteId site) {
      const plan::RankPlan& plan = step.outcome.ranks[static_cast<std::size_t>(rank)];
      const bool late = plan.graph.sites[row(site)].micro_batch >= 1;
      return late ? plan.program.contingency_limit_f : plan.figures.load;
    };
    const Result<run::SimRun> run = run::run_on_sim(request);
    ASSERT_TRUE(run.ok()) << run.error().message;
    expect_clean(step, run.value(), "job " + std::to_string(i));
  }
}

TEST(ContingencyRun, FarBeyondTheLimitIsRefusedByName) {
  StepGenerator generator(23);
  for (int i = 0; i < 6; ++i) {
    const PlannedStep step = generator.next_routed(1.1, 50 + 10 * i);
    run::SimRunRequest request = run_of(step);
    request.verify = true;
    request.load = [](std::int32_t, SiteId) { return 64.0; };
    const Result<run::SimRun> run = run::run_on_sim(request);
    ASSERT_FALSE(run.ok());
    EXPECT_EQ(run.error().code, Error::Code::infeasible);
    for (const char* word : {"rank ", "layer ", "micro-batch ", "load 64", "up to load "})
      EXPECT_NE(run.error().message.find(word), std::string::npos) << run.error().message;
  }
}

TEST(ContingencyRun, ALoadThatIsNoneIsRefusedByName) {
  const PlannedStep step = StepGenerator(23).next_routed(1.1, 60);
  for (const double load :
       {-1.0, 1001.0, 1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    run::SimRunRequest request = run_of(step);
    request.load = [&](std::int32_t, SiteId) { return load; };
    const Result<run::SimRun> run = run::run_on_sim(request);
    ASSERT_FALSE(run.ok()) << load;
    EXPECT_EQ(run.error().code, Error::Code::bad_input) << run.error().message;
    for (const char* word : {"rank ", "layer ", "from 0 to 1000"})
      EXPECT_NE(run.error().message.find(word), std::string::npos) << run.error().message;
  }
}

/// What ran before a refusal ran on the right bytes: no race, no mismatch, nothing left over.
TEST(ContingencyRun, ARefusalOverwritesNothing) {
  StepGenerator generator(24);
  int refused = 0;
  for (int i = 0; i < 6; ++i) {
    const PlannedStep step = generator.next_routed(1.1, 50 + 10 * i);
    const plan::RankPlan& plan = step.outcome.ranks.front();
    const std::unique_ptr<SimDevice> device = make_sim_device(run::sim_options_for(plan, step.request.machine));
    {
      RunOptions options{.verify = true, .load = [&](SiteId site) {
                           return plan.graph.sites[row(site)].micro_batch >= 1 ? 50.0 : 1.0;
                         }};
      Result<std::unique_ptr<Executor>> executor = Executor::open(plan.program, *device, options);
      ASSERT_TRUE(executor.ok()) << executor.error().message;
      if (executor.value()->issue().ok()) continue;
      ++refused;
      ASSERT_EQ(device->synchronize_device(), DeviceCode::ok);
      Mismatch first;
      EXPECT_EQ(device->mismatches(first), 0);
    }
    EXPECT_EQ(device->race_count(), 0) << to_string(device->races().front());
    EXPECT_EQ(device->leaks(), "");
  }
  EXPECT_GT(refused, 2);
}

/// Without aliasing oversized storages are served in one piece from the region: less than promised, said so.
TEST(ContingencyRun, WithoutAliasingTheReportSaysThatTheLimitIsNotPromised) {
  StepGenerator generator(25);
  int served = 0;
  for (int i = 0; i < 6; ++i) {
    const PlannedStep step = generator.next_routed(1.1, 140);
    const auto routed = std::find_if(step.outcome.ranks.begin(), step.outcome.ranks.end(),
                                     [](const plan::RankPlan& r) { return !r.program.routed.empty(); });
    const plan::RankPlan& plan = *routed;
    SimOptions options = run::sim_options_for(plan, step.request.machine);
    options.aliasing = false;
    const SiteId first = plan.program.routed.front().site;
    const std::unique_ptr<SimDevice> device = make_sim_device(options);
    {
      Result<std::unique_ptr<Executor>> executor =
          Executor::open(plan.program, *device, {.verify = true, .load = [&](SiteId site) {
                                                   return site == first ? plan.program.contingency_limit_f : 1.0;
                                                 }});
      ASSERT_TRUE(executor.ok()) << executor.error().message;
      if (!executor.value()->issue().ok()) continue;  // does not fit in one piece
      const Result<RunReport> report = executor.value()->finish();
      ASSERT_TRUE(report.ok()) << report.error().message;
      EXPECT_EQ(report.value().mismatches, 0);
      EXPECT_TRUE(std::any_of(report.value().warnings.begin(), report.value().warnings.end(),
                              [](const RunWarning& w) { return w.kind == RunWarning::Kind::limit_not_promised; }));
      served += report.value().oversized.empty() ? 0 : 1;
    }
    EXPECT_EQ(device->race_count(), 0) << to_string(device->races().front());
    EXPECT_EQ(device->leaks(), "");
  }
  EXPECT_GT(served, 0);
}

}  // namespace
}  // namespace tidemark::swap
