// The longest path against the simulator's step with work added, and the path that the simulator names.

#include "planner/simulate/longest_path.h"

#include <gtest/gtest.h>

#include <algorithm>
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

using Places = std::vector<std::pair<std::int32_t, std::int32_t>>;  // rank, place; from the end of the step back

Places places_of(const LongestPath& path) {
  Places places;
  for (const ComputeTask& task : path.compute_tasks()) places.emplace_back(task.rank, task.place);
  return places;
}

TEST(LongestPath, GoesByTheMessageOrTheLane) {
  LongestPath by_message(two_ranks(5000, 2000)), by_lane(two_ranks(2000, 5000));
  EXPECT_EQ(by_message.step_ns(by_message.nothing()), 105'010);
  EXPECT_EQ(places_of(by_message), (Places{{1, 1}, {0, 0}}));
  EXPECT_EQ(by_lane.step_ns(by_lane.nothing()), 105'000);
  EXPECT_EQ(places_of(by_lane), (Places{{1, 1}, {1, 0}}));
  EXPECT_EQ(by_lane.step_ns({{4000}, {0, 0}}), 106'010);
  EXPECT_EQ(places_of(by_lane), (Places{{1, 1}, {0, 0}})) << "added work moves it";
}

/// To the nanosecond, whatever is added, and what was asked before leaves nothing behind.
TEST(LongestPath, IsTheSimulatedStep) {
  testing::JobGenerator random(31);
  std::mt19937 pick(5);
  int asked = 0;
  for (int i = 0; i < testing::cases(12); ++i) {
    const std::vector<RankWork> works = works_of(random.next());
    LongestPath path(works);
    for (int k = 0; k < 6; ++k, ++asked) {
      std::vector<RankWork> longer = works;
      PerComputeTask added = path.nothing();
      for (std::size_t r = 0; r < works.size(); ++r) {
        const std::vector<std::size_t> tasks = computes_of(works[r]);
        ASSERT_EQ(added[r].size(), tasks.size());
        for (std::size_t place = 0; place < tasks.size() && k > 0; ++place) {
          if (pick() % 8 != 0) continue;
          const auto more = static_cast<std::int64_t>(pick() % 4'000'000);
          added[r][place] = static_cast<float>(more);
          longer[r].duration_ns[tasks[place]] += more;
        }
      }
      const std::int64_t step_ns = simulate_step(longer).value().step_ns;
      ASSERT_EQ(static_cast<std::int64_t>(path.step_ns(added)), step_ns);
      // A little more on the path makes the step as much longer.
      ASSERT_FALSE(path.compute_tasks().empty());
      const ComputeTask at = path.compute_tasks()[pick() % path.compute_tasks().size()];
      added[static_cast<std::size_t>(at.rank)][static_cast<std::size_t>(at.place)] += 64;
      EXPECT_EQ(static_cast<std::int64_t>(path.step_ns(added)), step_ns + 64);
    }
  }
  EXPECT_GT(asked, 10);
}

/// The path that the simulator names leads from the end of the step to its begin without a break.
TEST(SimulatedPath, HasNoBreak) {
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
