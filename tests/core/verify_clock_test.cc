// Places on the compute clock: as tight as the task order allows is clean, any tighter is not.

#include <gtest/gtest.h>

#include "core/verify_parts.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark {
namespace {

std::optional<Violation> clock_of(const Graph& graph, const Schedule& schedule) {
  return verify::check_clock(&graph, schedule, TaskOrder(schedule));
}

Schedule chain(Graph& graph) {
  graph = testing::chain_graph({.layers = 3, .micro_batches = 3, .warm_up = 2, .communication = true});
  return testing::keep_all_schedule(graph);
}

TEST(VerifyClock, TightestIsCleanAndTighterIsNot) {
  int off_compute = 0;
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    const Graph graph = testing::random_graph({.seed = seed, .ops = 40, .storages = 12});
    Schedule schedule = testing::keep_all_schedule(graph);
    const auto found = clock_of(graph, schedule);
    ASSERT_FALSE(found.has_value()) << found->detail;
    for (std::size_t r = 0; r < schedule.residencies.size(); ++r) {
      Residency& stay = schedule.residencies[r];
      if (stay.first_task == kNone<TaskId>) continue;
      if (stay.first_task == id_of<TaskId>(0) && row(stay.last_task) + 1 == schedule.tasks.size()) continue;
      off_compute += schedule.tasks[row(stay.last_task)].lane == Lane::compute ? 0 : 1;
      const Residency tight = stay;
      ++stay.acquire;
      const auto late = clock_of(graph, schedule);
      ASSERT_TRUE(late.has_value()) << seed << " " << r;
      EXPECT_EQ(late->rule, Violation::Rule::clock);
      stay = tight;
      --stay.release;
      EXPECT_TRUE(clock_of(graph, schedule).has_value()) << seed << " " << r;
      stay.acquire = std::max(0, tight.acquire - 1);  // looser is allowed
      stay.release = std::min(2 * schedule.compute_tasks, tight.release + 1);
      EXPECT_FALSE(clock_of(graph, schedule).has_value()) << seed << " " << r;
      stay = tight;
    }
  }
  EXPECT_GT(off_compute, 0);
}

TEST(VerifyClock, NamesWhatItFound) {
  Graph graph;
  Schedule schedule = chain(graph);
  Residency& stay = schedule.residencies.back();
  stay.release = stay.acquire;
  auto found = clock_of(graph, schedule);
  ASSERT_TRUE(found.has_value());
  EXPECT_NE(found->detail.find("the clock runs from 0 to"), std::string::npos) << found->detail;
  stay.release = 2 * schedule.compute_tasks + 1;
  EXPECT_TRUE(clock_of(graph, schedule).has_value());
}

}  // namespace
}  // namespace tidemark
