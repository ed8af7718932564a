// Weights against what the simulator says of a step in which one task takes longer, and the path it names as longest.

#include "planner/simulate/step_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "planner/cost/op_prices.h"
#include "planner/graph_build/step_graph.h"
#include "tests/support/pangu.h"
#include "tests/support/random_job.h"
#include "tests/support/sanitized.h"

namespace tidemark::simulate {
namespace {

constexpr double kHard = 1;  // ns

std::vector<RankWork> works_of(const graph_build::JobSpec& job) {
  std::vector<RankWork> works;
  for (std::int32_t rank = 0; rank < job.parallel.pipeline; ++rank) {
    const Graph graph = graph_build::build_step_graph(job, testing::ascend_910b(), rank, 1).value();
    works.push_back(work_of(graph, cost::op_durations(graph, testing::ascend_910b(), 1)));
  }
  return works;
}

std::vector<std::size_t> computes_of(const RankWork& work) {
  std::vector<std::size_t> tasks;
  for (std::size_t t = 0; t < work.lanes.size(); ++t)
    if (work.lanes[t] == Lane::compute) tasks.push_back(t);
  return tasks;
}

/// Two ranks; the first sends after `first_ns`, the other has `other_ns` of its own to do before it reads that.
std::vector<RankWork> two_ranks(std::int64_t first_ns, std::int64_t other_ns) {
  return {{.lanes = {Lane::compute, Lane::send},
           .duration_ns = {first_ns, 10},
           .first_wait = {0, 0, 1},
           .waits = {0},
           .messages = {{.task = 1, .peer_rank = 1, .tag = 7, .is_send = true}}},
          {.lanes = {Lane::compute, Lane::receive, Lane::compute},
           .duration_ns = {other_ns, 0, 100'000},
           .first_wait = {0, 0, 0, 1},
           .waits = {1},
           .messages = {{.task = 1, .peer_rank = 0, .tag = 7, .is_send = false}}}};
}

TEST(StepWeights, TheLongestPathHasThemAll) {
  const std::vector<RankWork> by_message = two_ranks(5000, 2000), by_lane = two_ranks(2000, 5000);
  EXPECT_EQ(step_weights(by_message, simulate_step(by_message).value(), kHard), (StepWeights{{1}, {0, 1}}));
  EXPECT_EQ(step_weights(by_lane, simulate_step(by_lane).value(), kHard), (StepWeights{{0}, {1, 1}}));
}

TEST(StepWeights, NearTiesShareBySoftness) {
  const std::vector<RankWork> works = two_ranks(5000, 4010);  // the lane could come 1000 later
  const StepWeights weights = step_weights(works, simulate_step(works).value(), 1000);
  EXPECT_NEAR(weights[1][0] / weights[0][0], std::exp(-1), 1e-6);
  EXPECT_NEAR(weights[1][0] + weights[0][0], 1, 1e-6);
  EXPECT_NEAR(weights[1][1], 1, 1e-6);
}

/// Where a task is on the longest path, the step is as much longer as the task is; elsewhere a little more is free.
TEST(StepWeights, AreWhatTheSimulatorSaysOfOneTaskThatTakesLonger) {
  testing::JobGenerator random(31);
  std::mt19937 pick(5);
  int weighed = 0, agree = 0;
  for (int i = 0; i < testing::cases(12); ++i) {
    const graph_build::JobSpec job = random.next();
    if (job.parallel.pipeline < 2) continue;
    std::vector<RankWork> works = works_of(job);
    const StepTiming timing = simulate_step(works).value();
    const StepWeights weights = step_weights(works, timing, kHard);
    for (int k = 0; k < 40; ++k) {
      const std::size_t rank = pick() % works.size();
      const std::vector<std::size_t> tasks = computes_of(works[rank]);
      const std::size_t place = pick() % tasks.size();
      constexpr std::int64_t kMore = 50;
      works[rank].duration_ns[tasks[place]] += kMore;
      const auto longer = static_cast<double>(simulate_step(works).value().step_ns - timing.step_ns);
      works[rank].duration_ns[tasks[place]] -= kMore;
      ++weighed;
      agree += std::abs(longer / kMore - static_cast<double>(weights[rank][place])) < 0.05 ? 1 : 0;
    }
  }
  // Communication of a rank is taken to move along with its lane, which it need not.
  EXPECT_GT(weighed, 30);
  EXPECT_GE(agree, weighed * 9 / 10) << weighed;
}

/// Paths are followed in time, so the lanes of all ranks together carry each of them at most once at any time.
TEST(StepWeights, AddUpToOneAtMostAtAnyTime) {
  testing::JobGenerator random(32);
  for (int i = 0; i < testing::cases(6); ++i) {
    const std::vector<RankWork> works = works_of(random.next());
    const StepTiming timing = simulate_step(works).value();
    const StepWeights weights = step_weights(works, timing, static_cast<double>(timing.step_ns) / 30);
    std::vector<std::pair<std::int64_t, double>> changes;
    for (std::size_t r = 0; r < works.size(); ++r) {
      const std::vector<std::size_t> tasks = computes_of(works[r]);
      ASSERT_EQ(weights[r].size(), tasks.size());
      for (std::size_t k = 0; k < tasks.size(); ++k) {
        EXPECT_GE(weights[r][k], 0);
        changes.emplace_back(timing.ranks[r].start_ns[tasks[k]], static_cast<double>(weights[r][k]));
        changes.emplace_back(timing.ranks[r].end_ns[tasks[k]], -static_cast<double>(weights[r][k]));
      }
    }
    std::ranges::sort(changes);  // of one moment, ends come first
    double sum = 0;
    for (const auto& [ns, change] : changes) {
      sum += change;
      ASSERT_LE(sum, 1.001) << ns;
    }
  }
}

/// The path that the simulator names leads from the end of the step to its begin without a break.
TEST(LongestPath, HasNoBreak) {
  testing::JobGenerator random(33);
  for (int i = 0; i < testing::cases(12); ++i) {
    const std::vector<RankWork> works = works_of(random.next());
    const StepTiming timing = simulate_step(works).value();
    ASSERT_FALSE(timing.longest_path.empty());
    const auto times = [&](const TaskOfRank& at) {
      const Timeline& rank = timing.ranks[static_cast<std::size_t>(at.rank)];
      return std::pair(rank.start_ns[static_cast<std::size_t>(at.task)],
                       rank.end_ns[static_cast<std::size_t>(at.task)]);
    };
    std::int64_t then = timing.step_ns;
    for (const TaskOfRank& at : timing.longest_path) {
      EXPECT_EQ(times(at).second, then) << "rank " << at.rank << " task " << at.task;
      then = times(at).first;
    }
    EXPECT_EQ(then, 0);
  }
}

}  // namespace
}  // namespace tidemark::simulate
