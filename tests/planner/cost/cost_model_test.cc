#include "planner/cost/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tiny_graph.h"

namespace tidemark::cost {
namespace {

using namespace literals;

Machine machine() {
  return {.peak_flops_per_s = 100e12,
          .matmul_efficiency = 0.5,
          .grouped_matmul_efficiency = 0.25,
          .attention_efficiency = 0.4,
          .memory_bytes_per_s = 1e12,
          .vector_efficiency = 0.8,
          .launch_ns = 500,
          .copy_launch_ns = 300,
          .d2h = {.bytes_per_s = 20e9, .latency_ns = 10},
          .h2d = {.bytes_per_s = 25e9, .latency_ns = 20},
          .intra_node = {.bytes_per_s = 100e9, .latency_ns = 3000},
          .inter_node = {.bytes_per_s = 10e9, .latency_ns = 7000}};
}

OpTemplate compute_op(WorkKind kind, double flops, double memory_bytes) {
  return {.cost = {.kind = kind, .flops = flops, .memory_bytes = memory_bytes}};
}

TEST(CostModel, ComputeIsTheLargerOfFlopAndMemoryTimeAndALaunch) {
  // 1e9 FLOPs at 50, 25 and 40 TFLOP/s; 8e6 bytes at 0.8 TB/s.
  EXPECT_EQ(op_ns(compute_op(WorkKind::matmul, 1e9, 8e6), machine(), 1), 500 + 20'000);
  EXPECT_EQ(op_ns(compute_op(WorkKind::grouped_matmul, 1e9, 8e6), machine(), 1), 500 + 40'000);
  EXPECT_EQ(op_ns(compute_op(WorkKind::attention, 1e9, 8e6), machine(), 1), 500 + 25'000);
  EXPECT_EQ(op_ns(compute_op(WorkKind::matmul, 1e9, 80e6), machine(), 1), 500 + 100'000);
  EXPECT_EQ(op_ns(compute_op(WorkKind::vector, 1e9, 8e6), machine(), 1), 500 + 10'000);
  EXPECT_EQ(op_ns(compute_op(WorkKind::none, 0, 0), machine(), 1), 0);
}

TEST(CostModel, OnlyRoutedWorkGrowsWithTheLoad) {
  OpTemplate op = compute_op(WorkKind::grouped_matmul, 1e9, 0);
  EXPECT_EQ(op_ns(op, machine(), 2), 500 + 40'000);
  op.routed = true;
  EXPECT_EQ(op_ns(op, machine(), 2), 500 + 80'000);
  OpTemplate dispatch{.lane = Lane::intra_comm,
                      .cost = {.kind = WorkKind::transfer, .link_bytes = 100e3},
                      .routed = true,
                      .collective = true};
  EXPECT_EQ(op_ns(dispatch, machine(), 1.5), 3000 + 1500);
}

TEST(CostModel, CommunicationTakesTheLinkOfItsLane) {
  OpTemplate op{.lane = Lane::intra_comm, .cost = {.kind = WorkKind::transfer, .link_bytes = 1e6}};
  EXPECT_EQ(op_ns(op, machine(), 1), 3000 + 10'000);
  op.lane = Lane::inter_comm;
  EXPECT_EQ(op_ns(op, machine(), 1), 7000 + 100'000);
  op.lane = Lane::send;
  op.phase = OpPhase::send;
  EXPECT_EQ(op_ns(op, machine(), 1), 7000 + 100'000);
  op.phase = OpPhase::receive;
  EXPECT_EQ(op_ns(op, machine(), 1), 0);
}

TEST(CostModel, GivenCostsAreTakenAsTheyAre) {
  OpTemplate op{.cost = {.kind = WorkKind::given, .given = 1234.4}, .routed = true};
  EXPECT_EQ(op_ns(op, machine(), 3), 1234);
}

TEST(CostModel, CopiesTakeTheLinkAndAShareOfTheComputeLane) {
  EXPECT_EQ(copy_out_cost(2'000'000, machine()).link_ns, 10 + 100'000);
  EXPECT_EQ(copy_in_cost(2'000'000, machine()).link_ns, 20 + 80'000);
  EXPECT_EQ(copy_out_cost(2'000'000, machine()).compute_ns, 300 + 2000);
  EXPECT_EQ(copy_in_cost(2'000'000, machine()).compute_ns, 300 + 2000);
  EXPECT_EQ(copy_out_cost(0, machine()).link_ns, 10);
}

TEST(CostModel, DurationsUseTheFullestLoadOfEachSiteAndScaleTheComputeLaneOnly) {
  testing::GraphBuilder b;
  const OpTemplateId expert =
      b.op_template({.name = "expert", .cost = {.kind = WorkKind::grouped_matmul, .flops = 1e9}, .routed = true});
  const OpTemplateId gather = b.op_template(
      {.name = "gather", .lane = Lane::intra_comm, .cost = {.kind = WorkKind::transfer, .link_bytes = 1e6}});
  const BlockId block = b.block("experts", {{.name = "rows", .fixed_bytes = 1_KiB}});
  const SiteId even = b.site(block);
  const SiteId loaded = b.site(block, {.micro_batch = 1, .load = 1.2F, .fullest_load = 1.5F});
  for (const SiteId site : {even, loaded, even}) b.run(expert, site, {}, {b.at(site, 0)});
  b.run(gather, loaded, {b.at(loaded, 0)}, {});
  const Graph graph = std::move(b).finish();
  EXPECT_EQ(op_durations(graph, machine()), (std::vector<std::int64_t>{40'500, 60'500, 40'500, 13'000}));
  EXPECT_EQ(op_durations(graph, machine(), 2.0), (std::vector<std::int64_t>{81'000, 121'000, 81'000, 13'000}));
}

}  // namespace
}  // namespace tidemark::cost
