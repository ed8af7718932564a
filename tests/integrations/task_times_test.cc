// Times of tasks under loads: of the plan where loads are the plan's, what the executor plays on `sim` elsewhere.
#include "integrations/run/task_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "planner/cost/op_prices.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"
#include "tests/support/planned_step.h"

namespace tidemark::testing {
namespace {

PlannedStep routed_step(std::uint32_t seed, int percent) {
  PlannedStep step = StepGenerator(seed).next_routed(1.2, percent);
  run::charge_copies(step.outcome, step.request.machine);
  return step;
}

/// Loads of sites drawn between two bounds, the same whenever asked.
run::SiteLoads drawn(const PlannedStep& step, std::uint32_t seed, double from, double to) {
  std::vector<std::vector<double>> loads;
  std::mt19937 random(seed);
  for (const plan::RankPlan& rank : step.outcome.ranks) {
    loads.emplace_back();
    for (std::size_t s = 0; s < rank.graph.sites.size(); ++s)
      loads.back().push_back(from + (to - from) * static_cast<double>(random() % 1001) / 1000);
  }
  return {.own = [loads](std::int32_t rank, SiteId site) { return loads[static_cast<std::size_t>(rank)][row(site)]; },
          .fullest = {}};
}

TEST(TaskTimes, AtPlannedLoadsAreTheEstimates) {
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    const PlannedStep step = routed_step(seed, 60);
    for (const plan::RankPlan& rank : step.outcome.ranks) {
      const run::TaskTimes times(rank, step.request.machine);
      const run::SiteLoads planned{
          .own = [&](std::int32_t, SiteId site) { return rank.graph.sites[row(site)].loads(); },
          .fullest = [&](std::int32_t,
                         SiteId site) { return static_cast<double>(rank.graph.sites[row(site)].fullest_load); }};
      EXPECT_EQ(times.under(planned), rank.program.estimate_ns);
    }
  }
}

/// What the cost model says of the op at that load, beside what the plan charges for issuing copies.
TEST(TaskTimes, FollowTheFullestDevice) {
  const PlannedStep step = routed_step(2, 60);
  std::size_t routed = 0;
  for (const plan::RankPlan& rank : step.outcome.ranks) {
    const run::TaskTimes times(rank, step.request.machine);
    const cost::OpPrices prices(rank.graph, step.request.machine);
    const run::SiteLoads loads{.own = [](std::int32_t, SiteId) { return 0.5; },
                               .fullest = [](std::int32_t, SiteId) { return 3.0; }};
    for (std::size_t t = 0; t < rank.program.schedule.tasks.size(); ++t) {
      const Task& task = rank.program.schedule.tasks[t];
      if (task.kind != TaskKind::op && task.kind != TaskKind::recompute) continue;
      const OpTemplate& op = rank.graph.op_templates[row(task.op_template)];
      const double planned = static_cast<double>(rank.graph.sites[row(task.site)].fullest_load);
      const std::int64_t more = prices.ns(task.op_template, 3.0) - prices.ns(task.op_template, planned);
      EXPECT_NEAR(static_cast<double>(times.work_ns(id_of<TaskId>(t), loads, 1)),
                  static_cast<double>(rank.program.estimate_ns[t] + more), 2)
          << op.name;
      routed += op.routed ? 1 : 0;
    }
  }
  EXPECT_GT(routed, 20U);
}

/// n chunks take what the op takes, and besides at most n times what none of its rows take: its launches, which are
/// hidden where kernels of the layer take longer, the start of tiles, and of weights' gradients what is added to.
TEST(TaskTimes, EveryChunkIsLaunched) {
  const PlannedStep step = routed_step(3, 60);
  for (const plan::RankPlan& rank : step.outcome.ranks) {
    const cost::OpPrices prices(rank.graph, step.request.machine);
    for (std::size_t t = 0; t < rank.program.schedule.tasks.size(); ++t) {
      const Task& task = rank.program.schedule.tasks[t];
      if (task.kind != TaskKind::op || task.lane != Lane::compute) continue;
      const OpTemplate& op = rank.graph.op_templates[row(task.op_template)];
      if (op.cost.kind == WorkKind::none || op.cost.launches == 0) continue;
      const double whole = prices.chunk_ns(task.op_template, 1.0, 1);
      const double chunks = 4 * prices.chunk_ns(task.op_template, 1.0, 4);
      EXPECT_GE(chunks, whole - 1) << op.name;
      const double empty = prices.chunk_ns(task.op_template, 1.0, 1'000'000'000);
      EXPECT_LE(chunks, whole + 4 * empty + 1) << op.name;
      EXPECT_GE(empty, 1e9 * step.request.machine.chip.rates.launch_s * op.cost.launches - 1) << op.name;
    }
  }
}

/// All ranks under these loads, played; within `tolerance` of the step that is modelled.
void expect_as_modelled(const PlannedStep& step, const run::SiteLoads& loads, double tolerance, const std::string& what,
                        run::SimRun& run) {
  run::SimRunRequest request = run_of(step);
  request.load = loads.own;
  Result<run::SimRun> played = run::run_on_sim(request);
  const Result<std::int64_t> modelled = run::modelled_step_ns(step.outcome.ranks, step.request.machine, loads, true);
  ASSERT_TRUE(played.ok() && modelled.ok()) << what;
  EXPECT_NEAR(static_cast<double>(played.value().step_ns), static_cast<double>(modelled.value()),
              tolerance * static_cast<double>(modelled.value()))
      << what;
  run = std::move(played).value();
}

/// Where every storage finds room in its slot, what is played is what is modelled.
TEST(TaskTimes, StepsThatFitArePlayedAsModelled) {
  std::int64_t copies = 0;
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    const PlannedStep step = routed_step(seed, 50 + 5 * static_cast<int>(seed));
    copies += content_of(step).swaps;
    const run::SiteLoads loads = drawn(step, seed, 0.2, 1.2);
    run::SimRun played;
    ASSERT_NO_FATAL_FAILURE(expect_as_modelled(step, loads, 0.002, "seed " + std::to_string(seed), played));
  }
  EXPECT_GT(copies, 0);
}

/// Rows beside their slots wait for nothing that the plan's do not: a part travels while another is computed.
TEST(TaskTimes, StepsWithRoomForAllArePlayedAsModelled) {
  for (const std::int32_t parts : {1, 2, 3, 4}) {
    PlannedStep step{
        .request = {
            .job = small_job(), .machine = ascend_910b(), .policy = policies::find_policy("keep-all"), .load = 1}};
    graph_build::JobSpec& job = step.request.job;
    job.model.sequence *= 16;
    job.parallel.data = job.parallel.expert = 2;
    job.parallel.global_batch *= 2;
    job.parallel.expert_exchange_parts = parts;
    Result<plan::PlanOutcome> planned = plan::plan_step(step.request);
    ASSERT_TRUE(planned.ok()) << planned.error().message;
    step.outcome = std::move(planned).value();
    run::charge_copies(step.outcome, step.request.machine);
    const run::SiteLoads loads = drawn(step, 7, 1.2, 1.9);
    run::SimRun played;
    ASSERT_NO_FATAL_FAILURE(expect_as_modelled(step, loads, 0.0005, std::to_string(parts) + " parts", played));
    for (const run::SimRankRun& rank : played.ranks) EXPECT_FALSE(rank.report.oversized.empty());
  }
}

/// A rig that has played other steps before plays this one as a new one does.
TEST(SimRig, PlaysEveryStepAsItsFirst) {
  const PlannedStep step = routed_step(5, 55);
  run::SiteLoads loads;
  run::SimRunRequest request = run_of(step);
  request.verify = true;
  request.load = [&](std::int32_t rank, SiteId site) { return loads.own(rank, site); };
  Result<std::unique_ptr<run::SimRig>> rig = run::SimRig::open(request);
  ASSERT_TRUE(rig.ok());
  std::size_t rungs = 0;
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    loads = drawn(step, seed, 0.5, seed % 2 == 0 ? 1.3 : 4);
    const Result<run::SimRun> again = rig.value()->play();
    const Result<run::SimRun> first = run::run_on_sim(request);
    ASSERT_TRUE(again.ok() && first.ok());
    expect_clean(step, first.value(), "first");
    EXPECT_EQ(again.value().step_ns, first.value().step_ns);
    for (std::size_t r = 0; r < first.value().ranks.size(); ++r) {
      const swap::RunReport &a = again.value().ranks[r].report, &b = first.value().ranks[r].report;
      EXPECT_EQ(a.mismatches + again.value().ranks[r].races, 0);
      EXPECT_EQ(a.oversized.size(), b.oversized.size());
      EXPECT_EQ(a.spills.size(), b.spills.size());
      EXPECT_EQ(a.sections.size(), b.sections.size());
      rungs += b.oversized.size() + b.sections.size();
    }
  }
  EXPECT_GT(rungs, 50U);
}

}  // namespace
}  // namespace tidemark::testing
