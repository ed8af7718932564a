// Where a step's time goes, the gap to a published one, and verdicts on budgets.

#include <gtest/gtest.h>

#include <vector>

#include "planner/budget_check.h"
#include "planner/gap_report.h"
#include "planner/graph_build/layer_time.h"
#include "planner/schedule/peak.h"
#include "planner/time_split.h"
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
