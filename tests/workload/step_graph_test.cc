#include "planner/workload/step_graph.h"

#include <gtest/gtest.h>

#include "tests/support/graph_checks.h"
#include "tests/support/pangu.h"

namespace tidemark {
namespace {

using testing::ascend_910b;

Graph build(const JobSpec& job, std::int32_t rank, double load = 1.0) {
  auto graph = build_step_graph(job, ascend_910b(), rank, load);
  EXPECT_TRUE(graph.ok());
  return std::move(graph).value();
}

TEST(StepGraph, PanguRanks) {
  for (const std::int32_t rank : {0, 2, 14, 15}) {
    const Graph graph = build(testing::pangu_job(), rank);
    EXPECT_EQ(testing::check_graph(graph), "") << rank;
    std::printf("rank %d ops %zu storages %zu accesses %zu sites %zu\n", rank, graph.ops.size(), graph.storages.size(),
                graph.accesses.size(), graph.sites.size());
  }
}

}  // namespace
}  // namespace tidemark
