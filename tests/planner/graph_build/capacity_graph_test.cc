// What a capacity makes of the storages and ops of a step: closed forms.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "planner/cost/op_prices.h"
#include "planner/graph_build/load_model.h"
#include "planner/graph_build/load_shape.h"
#include "planner/graph_build/step_graph.h"
#include "tests/support/pangu.h"

namespace tidemark::graph_build {
namespace {

Graph graph_of(const JobSpec& job, double load) {
  Result<Graph> graph = build_step_graph(job, testing::ascend_910b(), 2, load);
  EXPECT_TRUE(graph.ok());
  return std::move(graph).value();
}

JobSpec pangu_with(double factor, MoeSpec::CapacityLevel level, bool pads) {
  JobSpec job = testing::pangu_job();
  job.model.moe.capacity_factor = factor;
  job.model.moe.capacity_level = level;
  job.model.moe.pad_to_capacity = pads;
  return job;
}

constexpr std::array kLevels = {MoeSpec::CapacityLevel::expert, MoeSpec::CapacityLevel::device};

/// 1.25 x 16384 rows are received and sent, whatever load is asked for, with a distribution and without.
TEST(CapacityGraph, PaddedStoragesHoldTheCapacity) {
  for (const MoeSpec::CapacityLevel level : kLevels)
    for (const double cv : {0.0, 0.3}) {
      JobSpec job = pangu_with(1.25, level, true);
      job.expert_load.coefficient_of_variation = cv;
      const Graph graph = graph_of(job, 1.0);
      int routed = 0;
      for (const Storage& storage : graph.storages) {
        const StorageTemplate& shape = graph.storage_templates[row(storage.storage_template)];
        if (shape.routed_rows == 0) continue;
        ASSERT_EQ(shape.routed_rows, 16384);
        EXPECT_EQ(storage.bytes, shape.fixed_bytes + 20480 * shape.routed_row_bytes) << shape.name;
        ++routed;
      }
      EXPECT_GT(routed, 1000);
      for (const Op& op : graph.ops)
        if (op.site != kNone<SiteId> && graph.op_templates[row(op.op_template)].routed) {
          EXPECT_EQ(graph.sites[row(op.site)].fullest_load, 1.25F);
        }
    }
}

/// What is not padded holds min(f, capacity); times are those of the fullest, cut at it.
TEST(CapacityGraph, WithoutPaddingNoDeviceHoldsMore) {
  for (const MoeSpec::CapacityLevel level : kLevels) {
    JobSpec job = pangu_with(1.25, level, false);
    job.expert_load.coefficient_of_variation = 0.1;
    for (const double load : {1.0, 1.2, 1.25, 3.0}) {
      const Graph graph = graph_of(job, load);
      for (const Storage& storage : graph.storages) {
        const StorageTemplate& shape = graph.storage_templates[row(storage.storage_template)];
        if (shape.routed_rows == 0 || shape.rows_of != RowsOf::received) continue;
        const double rows = std::ceil(std::min(load, 1.25) * 16384 - 1e-2);
        EXPECT_NEAR(static_cast<double>(storage.bytes - shape.fixed_bytes),
                    rows * static_cast<double>(shape.routed_row_bytes), static_cast<double>(shape.routed_row_bytes));
      }
      const float cut = static_cast<float>(mean_fullest_load(load_model(job.expert_load), 32, 1.25));
      for (const Site& site : graph.sites)
        if (site.load != 1) {
          EXPECT_EQ(site.fullest_load, cut);
        }
    }
  }
}

/// A padded job takes as long as a dropless one whose fullest devices have as many rows, and more for what pads the
/// rows that it picks and sums up.
TEST(CapacityGraph, PaddedRowsAreComputedAndSent) {
  const Machine machine = testing::ascend_910b();
  const JobSpec padded = pangu_with(1.5, MoeSpec::CapacityLevel::expert, true);
  const Graph full = graph_of(padded, 1.0), dropless = graph_of(testing::pangu_job(), 1.5),
              even = graph_of(testing::pangu_job(), 1.0);
  const auto total = [&](const Graph& graph) {
    double sum = 0;
    for (const std::int64_t ns : cost::op_durations(graph, machine)) sum += static_cast<double>(ns);
    return sum;
  };
  EXPECT_GT(total(full), total(dropless));
  EXPECT_LT(total(full), 1.02 * total(dropless));
  EXPECT_GT(total(full), 1.05 * total(even));
}

}  // namespace
}  // namespace tidemark::graph_build
