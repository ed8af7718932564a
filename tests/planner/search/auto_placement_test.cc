// `placement: auto` against planning every candidate, and the search of layouts with placements.

#include "planner/search/auto_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "planner/graph_build/layer_placement.h"
#include "planner/graph_build/static_memory.h"
#include "planner/search/layout_search.h"
#include "planner/search/layout_trial.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"
#include "tests/support/random_job.h"

namespace tidemark::search {
namespace {

plan::PlanRequest request_of(graph_build::JobSpec job, const char* policy) {
  graph_build::fill_stages_evenly(job.model, job.parallel);
  job.parallel.head_stage = -1;
  job.parallel.auto_placement = true;
  return {
      .job = std::move(job), .machine = testing::ascend_910b(), .policy = policies::find_policy(policy), .load = 1.0};
}

/// Jobs of several ranks with more layers than stages.
graph_build::JobSpec deep_job(testing::JobGenerator& random) {
  graph_build::JobSpec job = random.next();
  while (job.parallel.pipeline == 1) job = random.next();
  job.model.layers.resize(static_cast<std::size_t>(job.parallel.stages()) + 3, job.model.layers.back());
  return job;
}

std::int64_t kept_ns(plan::PlanRequest request, const Placement& placement) {
  place(request.job.model, placement, request.job.parallel);
  return keep_all_ns(request).value();
}

TEST(AutoPlacement, IsLegalAndNoSlowerThanEvenStages) {
  testing::JobGenerator random(21);
  int faster = 0, rounds = 0;
  for (int round = 0; round < 16; ++round) {
    plan::PlanRequest request = request_of(deep_job(random), "optimal");
    if (!graph_build::find_problems(request.job).empty()) continue;
    ++rounds;
    const std::int64_t even = keep_all_ns(request).value();
    const auto placed = place_automatically(request);
    ASSERT_TRUE(placed) << placed.error().message;
    EXPECT_FALSE(request.job.parallel.auto_placement);
    EXPECT_TRUE(graph_build::find_problems(request.job).empty());
    EXPECT_EQ(graph_build::stage_layers(request.job.parallel), placed.value().placement.layers);
    const std::int64_t found = keep_all_ns(request).value();
    // The passes' clock and the ops' may rank placements apart by what is close.
    EXPECT_LE(static_cast<double>(found), 1.02 * static_cast<double>(even)) << describe(placed.value());
    faster += found < even ? 1 : 0;
    EXPECT_LE(placed.value().bound_ns, placed.value().passes_ns);
  }
  EXPECT_GT(rounds, 8);
  EXPECT_GT(faster, 3);
}

/// Of the fastest by passes the few that are simulated hold the fastest by ops, or one close to it.
TEST(AutoPlacement, TheFewThatAreSimulatedHoldTheFastestByOps) {
  testing::JobGenerator random(22);
  double worst = 0, sum = 0;
  int jobs = 0;
  for (int round = 0; round < 24; ++round) {
    plan::PlanRequest request = request_of(deep_job(random), "keep-all");
    if (!graph_build::find_problems(request.job).empty()) continue;
    simulate::PassTimeTable times(request.machine, 1.0, 1.0);
    const auto found = search_placements(request.job, times, {.kept = 60});
    ASSERT_TRUE(found) << found.error().message;
    const plan::PlanRequest given = request;
    ASSERT_TRUE(place_automatically(request));
    const std::int64_t chosen = keep_all_ns(request).value();
    std::int64_t fastest = chosen;
    for (const PlacedStep& placed : found.value().best) fastest = std::min(fastest, kept_ns(given, placed.placement));
    const double regret = static_cast<double>(chosen) / static_cast<double>(fastest) - 1;
    worst = std::max(worst, regret);
    sum += regret;
    ++jobs;
  }
  EXPECT_GT(jobs, 10);
  EXPECT_LE(worst, 0.02);
  EXPECT_LE(sum / jobs, 0.005);
}

TEST(AutoPlacement, PassesOverWhatDoesNotFit) {
  testing::JobGenerator random(23);
  int misfits = 0, rescued = 0;
  for (int round = 0; round < 12; ++round) {
    plan::PlanRequest request = request_of(deep_job(random), "keep-all");
    if (!graph_build::find_problems(request.job).empty()) continue;
    plan::PlanRequest roomy = request;
    ASSERT_TRUE(place_automatically(roomy));
    const auto planned = plan::plan_step(roomy);
    ASSERT_TRUE(planned);
    Bytes peak = 0;
    for (const plan::RankPlan& rank : planned.value().ranks) peak = std::max(peak, rank.figures.peak_bytes);
    request.budget_bytes = peak - 1;
    const auto tight = place_automatically(request);
    ASSERT_TRUE(tight) << tight.error().message;
    misfits += tight.value().misfit > 0 ? 1 : 0;
    rescued += tight.value().misfit > 0 && tight.value().fits ? 1 : 0;
    const auto again = plan::plan_step(request);
    ASSERT_TRUE(again);
    EXPECT_TRUE(!tight.value().fits || again.value().fits());
    EXPECT_EQ(describe(tight.value()).find("none fits, this is the fastest") != std::string::npos, !tight.value().fits);
  }
  EXPECT_GT(misfits, 4);
  EXPECT_GT(rescued, 2);
}

/// A quantile that is asked for is what memory must hold, not the mean.
TEST(AutoPlacement, IsJudgedAtTheQuantileThatIsAskedFor) {
  testing::JobGenerator random(29);
  int misfits = 0;
  for (int round = 0; round < 16; ++round) {
    plan::PlanRequest request = request_of(deep_job(random), "keep-all");
    if (!graph_build::find_problems(request.job).empty() || !request.job.model.has_experts()) continue;
    request.load.reset();
    request.job.expert_load = {.coefficient_of_variation = 0.2, .layer_correlation = 0.25};
    plan::PlanRequest at_mean = request;
    at_mean.load = 1.0;
    ASSERT_TRUE(place_automatically(at_mean));
    const auto kept = plan::plan_step(at_mean);
    ASSERT_TRUE(kept);
    Bytes peak = 0;
    for (const plan::RankPlan& rank : kept.value().ranks) peak = std::max(peak, rank.figures.peak_bytes);
    request.budget_bytes = peak;
    request.job.expert_load.quantile = 0.999;
    const auto placed = place_automatically(request);
    ASSERT_TRUE(placed) << placed.error().message;
    request.ranks = worst_ranks(request.job);  // which is what a placement is judged by
    const auto planned = plan::plan_step(request);
    ASSERT_TRUE(planned);
    EXPECT_EQ(placed.value().fits, planned.value().fits()) << round;
    misfits += placed.value().misfit > 0 ? 1 : 0;
  }
  EXPECT_GT(misfits, 1);
}

TEST(LayoutSearch, PlacementsFoundAreNoSlowerAndTrue) {
  testing::JobGenerator random(24);
  std::size_t placed = 0;
  for (int round = 0; round < 4; ++round) {
    graph_build::JobSpec job = deep_job(random);
    job.parallel.global_batch = 16;
    const plan::PlanRequest plan{
        .job = job, .machine = testing::ascend_910b(), .policy = policies::find_policy("keep-all"), .load = 1.1};
    const LayoutSpace space = enumerate_layouts(
        job, plan.machine, 8, {.tensor = {1}, .context = {1}, .pipeline = {2, 4}, .micro_batch = {1}});
    const auto plain = search_layouts({.plan = plan, .space = space, .top = 3});
    const auto better = search_layouts({.plan = plan, .space = space, .top = 3, .place = true});
    ASSERT_TRUE(plain && better);
    ASSERT_FALSE(plain.value().best.empty());
    EXPECT_LE(better.value().best.front().figures.step_ns, plain.value().best.front().figures.step_ns);
    placed += better.value().placed;
    const LayoutSearchResult& r = better.value();
    EXPECT_EQ(r.over_static + r.bounded_away + r.planned + r.below, space.layouts.size() + r.placed);
    for (const RankedLayout& ranked : r.best) {
      plan::PlanRequest alone = plan;
      alone.job = with_layout(job, ranked.layout);
      EXPECT_EQ(plan::plan_step(alone).value().step.step_ns, ranked.figures.step_ns) << layout_text(ranked.layout);
    }
  }
  EXPECT_GT(placed, 0U);
}

}  // namespace
}  // namespace tidemark::search
