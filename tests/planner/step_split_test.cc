// Where a step's time goes, the gap to a published one, and verdicts on budgets.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "planner/budget_check.h"
#include "planner/cost/op_prices.h"
#include "planner/gap_report.h"
#include "planner/graph_build/layer_time.h"
#include "planner/graph_build/step_graph.h"
#include "planner/schedule/peak.h"
#include "planner/stage_balance.h"
#include "planner/time_split.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"
#include "tests/support/tiny_outcome.h"

namespace tidemark::plan {
namespace {

std::int64_t sum_of(const TimeSplit& s) {
  return s.compute_ns + s.recompute_ns + s.copy_overhead_ns + s.exposed_communication_ns + s.exposed_copy_ns +
         s.bubble_ns;
}

TEST(TimeSplit, LinesAddUpToTheStep) {
  const PlanOutcome outcome = testing::tiny_outcome();
  std::vector<TimeSplit> splits;
  for (const RankPlan& rank : outcome.ranks) {
    const TimeSplit split = split_time(rank, outcome.step.step_ns);
    EXPECT_EQ(sum_of(split), outcome.step.step_ns);
    EXPECT_GT(split.recompute_ns, 0);
    EXPECT_GT(split.copy_ns, 0);
    splits.push_back(split);
  }
  const TimeSplit mean = mean_split(splits);
  EXPECT_EQ(sum_of(mean), mean.step_ns);
  EXPECT_EQ(mean.step_ns, outcome.step.step_ns);
}

/// Every op of the graph once: nothing is recomputed.
TEST(StageBalance, IsThatOfTheOpsOfRanksAndChunks) {
  const graph_build::JobSpec job = testing::llama3_70b_job();
  const Machine machine = testing::ascend_910b();
  const auto planned = plan_step({.job = job, .machine = machine, .policy = policies::find_policy("keep-all")});
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  std::vector<double> by_rank, by_chunk;
  for (std::int32_t rank = 0; rank < job.parallel.pipeline; ++rank) {
    const Graph graph = graph_build::build_step_graph(job, machine, rank, 1.0).value();
    const std::vector<std::int64_t> durations = cost::op_durations(graph, machine, 1.0);
    std::vector<double> chunks(static_cast<std::size_t>(job.parallel.virtual_pipeline), 0);
    for (std::size_t op = 0; op < graph.ops.size(); ++op) {
      const SiteId site = graph.ops[op].site;
      if (graph.template_of(id_of<OpId>(op)).lane != Lane::compute || site == kNone<SiteId>) continue;
      if (graph.sites[row(site)].micro_batch < 0) continue;
      chunks[static_cast<std::size_t>(graph.sites[row(site)].chunk)] += static_cast<double>(durations[op]);
    }
    by_rank.push_back(std::accumulate(chunks.begin(), chunks.end(), 0.0));
    by_chunk.insert(by_chunk.end(), chunks.begin(), chunks.end());
  }
  const auto above = [](const std::vector<double>& times) {
    const double sum = std::accumulate(times.begin(), times.end(), 0.0);
    return 100 * (*std::ranges::max_element(times) * static_cast<double>(times.size()) / sum - 1);
  };
  const std::optional<StageBalance> balance = stage_balance(planned.value(), job.parallel);
  ASSERT_TRUE(balance.has_value());
  EXPECT_NEAR(balance->rank_percent, above(by_rank), 1e-9);
  EXPECT_NEAR(balance->chunk_percent, above(by_chunk), 1e-9);
  // Layers are even: the output head makes its rank the busiest, and its chunk more so.
  EXPECT_EQ(balance->busiest_rank, job.parallel.pipeline - 1);
  EXPECT_EQ(balance->busiest_chunk_rank, job.parallel.pipeline - 1);
  EXPECT_EQ(balance->busiest_chunk, job.parallel.virtual_pipeline - 1);
  EXPECT_GT(balance->chunk_percent, balance->rank_percent);
}

TEST(StageBalance, IsOfWholeStepsAlone) {
  PlanOutcome outcome = testing::tiny_outcome();
  const graph_build::ParallelSpec parallel = testing::tiny_request().job.parallel;
  EXPECT_TRUE(stage_balance(outcome, parallel).has_value());
  graph_build::ParallelSpec one = parallel;
  one.pipeline = 1;
  EXPECT_FALSE(stage_balance(outcome, one).has_value());
  outcome.ranks.front().task_ns.clear();
  EXPECT_FALSE(stage_balance(outcome, parallel).has_value());
  outcome.ranks.erase(outcome.ranks.begin());
  EXPECT_FALSE(stage_balance(outcome, parallel).has_value());
}

TEST(Gap, LinesAddUpOnBothSides) {
  const PublishedStep* published = find_published_step("pangu-ultra-moe-718b");
  ASSERT_NE(published, nullptr);
  const TimeSplit mean{.step_ns = 20'000'000'000,
                       .compute_ns = 15'000'000'000,
                       .recompute_ns = 500'000'000,
                       .copy_overhead_ns = 100'000'000,
                       .exposed_communication_ns = 1'400'000'000,
                       .exposed_copy_ns = 1'000'000'000,
                       .bubble_ns = 2'000'000'000,
                       .communication_ns = 10'000'000'000};
  const GapReport gap = split_gap(*published, mean, 4, 64);
  double on_paper = 0, modelled = 0;
  for (const GapLine& line : gap.lines) {
    on_paper += line.published_ns;
    modelled += line.modelled_ns;
  }
  EXPECT_NEAR(on_paper, gap.published_step_ns, 1);
  EXPECT_NEAR(modelled, gap.modelled_step_ns, 1);
  // 34.5 s and 120.5 ms per layer and micro-batch, as published figures give them.
  EXPECT_NEAR(gap.published_step_ns, 34.47e9, 0.01e9);
  EXPECT_NEAR(gap.published_layer_ns, 120.5e6, 0.05e6);
  EXPECT_NEAR(gap.modelled_layer_ns, 18e9 / 256, 1);
  EXPECT_NEAR(gap.lines.front().published_ns * gap.kernel_rate_ratio, 15.5e9, 1);
  EXPECT_EQ(find_published_step("tiny"), nullptr);
}

TEST(LayerTime, ScalesToWhatWasMeasured) {
  const graph_build::JobSpec job = testing::pangu_job();
  const Machine machine = testing::ascend_910b();
  const Result<double> modelled = graph_build::mean_layer_ns(job, machine, 1.0);
  ASSERT_TRUE(modelled.ok());
  EXPECT_GT(modelled.value(), 0);
  const Result<double> scale = graph_build::layer_time_scale(job, machine, 1.0, 120.5e6);
  ASSERT_TRUE(scale.ok());
  EXPECT_NEAR(scale.value() * modelled.value(), 120.5e6, 1);
  EXPECT_GT(graph_build::mean_layer_ns(job, machine, 2.0).value(), modelled.value());
}

TEST(Peak, IsWhereTheProfileIsHighest) {
  const PlanOutcome outcome = testing::tiny_outcome();
  for (const RankPlan& rank : outcome.ranks) {
    const MemoryProfile profile = memory_profile(rank.graph, rank.program.schedule);
    std::int32_t clock = 0;
    Bytes most = -1;
    for (std::size_t i = 0; i < profile.clock.size(); ++i) {
      Bytes sum = 0;
      for (const Bytes b : profile.bytes[i]) sum += b;
      if (sum <= most) continue;
      most = sum;
      clock = profile.clock[i];
    }
    EXPECT_EQ(schedule::peak_clock(rank.program.schedule), clock);
  }
  EXPECT_EQ(schedule::peak_clock({}), 0);
}

TEST(BudgetVerdicts, AtTheEdges) {
  EXPECT_EQ(judge(101, 100, 10), BudgetVerdict::fail);
  EXPECT_EQ(judge(100, 100, 10), BudgetVerdict::near);
  EXPECT_EQ(judge(91, 100, 10), BudgetVerdict::near);
  EXPECT_EQ(judge(90, 100, 10), BudgetVerdict::pass);
  EXPECT_EQ(judge(100, 100, 0), BudgetVerdict::pass);
}

TEST(BudgetVerdicts, NameTheWorstRank) {
  const std::vector<RankFigures> ranks = {{.rank = 4, .peak_bytes = 80, .host_bytes = 7},
                                          {.rank = 5, .peak_bytes = 95, .host_bytes = 9},
                                          {.rank = 6, .peak_bytes = 95, .host_bytes = 1}};
  EXPECT_EQ(check_budget(ranks, {100, 10}).verdict, BudgetVerdict::near);
  EXPECT_EQ(check_budget(ranks, {100, 10}).worst, 1U);
  EXPECT_EQ(check_budget(ranks, {94, 0}).verdict, BudgetVerdict::fail);
  EXPECT_FALSE(check_budget(ranks, {94, 0}, BudgetLimit{1, 0}).host);
  const BudgetCheck host = check_budget(ranks, {100, 0}, BudgetLimit{8, 2});
  EXPECT_EQ(host.verdict, BudgetVerdict::fail);
  EXPECT_TRUE(host.host);
  EXPECT_EQ(host.worst, 1U);
  EXPECT_EQ(host.margin_bytes, 2);
  EXPECT_EQ(check_budget(ranks, {100, 5}, BudgetLimit{9, 2}).verdict, BudgetVerdict::pass);
}

}  // namespace
}  // namespace tidemark::plan
