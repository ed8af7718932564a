#include "planner/cost/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/cost/attention_time.h"
#include "tests/support/plain_chip.h"
#include "tests/support/tiny_graph.h"

namespace tidemark::cost {
namespace {

using namespace literals;

/// Products of 100 TFLOP/s in tiles of one element, half of it of grouped ones and a quarter in attention; 1 TB/s,
/// links of 100 and 10 GB/s with hops of 3 us, launches of 2 us.
Machine machine() {
  Machine m{.chip = testing::plain_chip(100e12, 1e12, 100e9),
            .copy_launch_ns = 300,
            .d2h = {.bytes_per_s = 20e9, .latency_ns = 10},
            .h2d = {.bytes_per_s = 25e9, .latency_ns = 20}};
  m.chip.sheet.inter_bytes_per_s = 10e9;
  m.chip.rates.grouped_matmul = 0.5;
  m.chip.rates.attention = 0.25;
  m.chip.rates.hop_s = 3e-6;
  return m;
}

OpTemplate product_op(WorkKind kind, const ProductShape& product, double memory_bytes = 0) {
  return {.cost = {.kind = kind, .memory_bytes = memory_bytes, .product = product}};
}

OpTemplate vector_op(double memory_bytes) {
  return {.cost = {.kind = WorkKind::vector, .memory_bytes = memory_bytes}};
}

/// 1e9 FLOPs.
constexpr ProductShape kProduct{.rows = 1000, .inner = 1000, .columns = 500};

TEST(CostModel, ComputeIsWorkOverTheRateOfItsKind) {
  EXPECT_EQ(op_ns(product_op(WorkKind::matmul, kProduct), machine(), 1), 10'000);
  EXPECT_EQ(op_ns(product_op(WorkKind::grouped_matmul, kProduct), machine(), 1), 20'000);
  // What is read and written beside the operands comes on top: 8e6 bytes at 1 TB/s.
  EXPECT_EQ(op_ns(product_op(WorkKind::matmul, kProduct, 8e6), machine(), 1), 10'000 + 8'000);
  EXPECT_EQ(op_ns(vector_op(8e6), machine(), 1), 8'000);
  EXPECT_EQ(op_ns(vector_op(0), machine(), 1), 0);
  EXPECT_EQ(op_ns({.cost = {}}, machine(), 1), 0);
}

TEST(CostModel, AProductInAPrecisionThatTheChipLacksIsOneInBf16) {
  ProductShape product = kProduct;
  product.precision = Precision::fp8;
  EXPECT_EQ(op_ns(product_op(WorkKind::matmul, product), machine(), 1), 10'000);
}

TEST(CostModel, AttentionIsThatOfTheKernelModel) {
  OpTemplate op{.cost = {.kind = WorkKind::attention,
                         .attention = {.tokens = 1024, .length = 4096, .heads = 8, .qk_dim = 128, .v_dim = 128}}};
  const AttentionPasses passes =
      attention_passes({.tokens = 1024, .length = 4096, .heads = 8, .qk_dim = 128, .v_dim = 128}, machine().chip);
  EXPECT_EQ(op_ns(op, machine(), 1), std::llround(1e9 * passes.forward_s));
  op.cost.attention.is_backward = true;
  EXPECT_EQ(op_ns(op, machine(), 1), std::llround(1e9 * passes.backward_s));
}

TEST(CostModel, AnOpIsNoShorterThanItsLaunch) {
  Machine launching = machine();
  launching.chip.rates.launch_s = 2e-6;
  EXPECT_EQ(op_ns(vector_op(0), launching, 1), 2'000);
  EXPECT_NEAR(static_cast<double>(op_ns(vector_op(2e6), launching, 1)), 2'000 * std::pow(2, 0.1), 1) << "as long";
  EXPECT_EQ(op_ns(vector_op(8e6), launching, 1), 8'000) << "the launch is hidden";
  // Parts are launched each.
  EXPECT_NEAR(chunk_ns(vector_op(8e6), launching, 1, 1'000'000), 2'000, 1);
}

TEST(CostModel, OnlyRoutedWorkGrowsWithTheLoad) {
  OpTemplate op = product_op(WorkKind::grouped_matmul, kProduct);
  EXPECT_EQ(op_ns(op, machine(), 2), 20'000);
  op.routed = true;
  EXPECT_EQ(op_ns(op, machine(), 2), 40'000);
  op.cost.product.has_inner_tokens = true;  // of a weight's gradient its inner dimension, not what it is added to
  op.cost.memory_bytes = 4e6;
  EXPECT_EQ(op_ns(op, machine(), 2), 40'000 + 4'000);
  const OpTemplate dispatch{.lane = Lane::intra_comm,
                            .cost = {.kind = WorkKind::transfer,
                                     .link_bytes = 100e3,
                                     .group = {.ranks = 4, .per_node = 4, .pattern = GroupShape::Pattern::exchange}},
                            .routed = true,
                            .collective = true};
  EXPECT_EQ(op_ns(dispatch, machine(), 1.5), 2 * 3000 + 1500);
}

TEST(CostModel, CommunicationTakesTheLinkOfItsGroup) {
  OpTemplate op{.lane = Lane::intra_comm,
                .cost = {.kind = WorkKind::transfer,
                         .link_bytes = 1e6,
                         .group = {.ranks = 8, .per_node = 8, .pattern = GroupShape::Pattern::ring}}};
  EXPECT_EQ(op_ns(op, machine(), 1), 3 * 3000 + 10'000);  // a tree of eight
  op.lane = Lane::inter_comm;
  op.cost.group = {.ranks = 2, .per_node = 1, .pattern = GroupShape::Pattern::ring};
  EXPECT_EQ(op_ns(op, machine(), 1), 3 * 3000 + 100'000);  // a hop, and one for each node
  op.lane = Lane::send;
  op.phase = OpPhase::send;
  op.cost.group = {};
  EXPECT_EQ(op_ns(op, machine(), 1), 3000 + 100'000);
  op.cost.group.per_node = 2;
  EXPECT_EQ(op_ns(op, machine(), 1), 3000 + 10'000);
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
      b.op_template({.name = "expert", .cost = {.kind = WorkKind::vector, .memory_bytes = 40e6}, .routed = true});
  const OpTemplateId gather =
      b.op_template({.name = "gather",
                     .lane = Lane::intra_comm,
                     .cost = {.kind = WorkKind::transfer, .link_bytes = 1e6, .group = {.ranks = 2, .per_node = 2}}});
  const BlockId block = b.block("experts", {{.name = "rows", .fixed_bytes = 1_KiB}});
  const SiteId even = b.site(block);
  const SiteId loaded = b.site(block, {.micro_batch = 1, .load = 1.2F, .fullest_load = 1.5F});
  for (const SiteId site : {even, loaded, even}) b.run(expert, site, {}, {b.at(site, 0)});
  b.run(gather, loaded, {b.at(loaded, 0)}, {});
  const Graph graph = std::move(b).finish();
  EXPECT_EQ(op_durations(graph, machine()), (std::vector<std::int64_t>{40'000, 60'000, 40'000, 13'000}));
  EXPECT_EQ(op_durations(graph, machine(), 2.0), (std::vector<std::int64_t>{80'000, 120'000, 80'000, 13'000}));
}

}  // namespace
}  // namespace tidemark::cost
