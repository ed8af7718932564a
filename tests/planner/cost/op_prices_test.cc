#include "planner/cost/op_prices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

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

/// Nanoseconds of an op by itself, whose launches are not looked at.
std::int64_t op_ns(const OpTemplate& op, const Machine& machine, double load) {
  const Graph graph{.op_templates = {op}};
  return OpPrices(graph, machine).ns(id_of<OpTemplateId>(0), load);
}

/// 1e9 FLOPs.
constexpr ProductShape kProduct{.rows = 1000, .inner = 1000, .columns = 500};

TEST(OpPrices, ComputeIsWorkOverTheRateOfItsKind) {
  EXPECT_EQ(op_ns(product_op(WorkKind::matmul, kProduct), machine(), 1), 10'000);
  EXPECT_EQ(op_ns(product_op(WorkKind::grouped_matmul, kProduct), machine(), 1), 20'000);
  // What is read and written beside the operands comes on top: 8e6 bytes at 1 TB/s.
  EXPECT_EQ(op_ns(product_op(WorkKind::matmul, kProduct, 8e6), machine(), 1), 10'000 + 8'000);
  EXPECT_EQ(op_ns(vector_op(8e6), machine(), 1), 8'000);
  EXPECT_EQ(op_ns(vector_op(0), machine(), 1), 0);
  EXPECT_EQ(op_ns({.cost = {}}, machine(), 1), 0);
}

TEST(OpPrices, AProductInAPrecisionThatTheChipLacksIsOneInBf16) {
  ProductShape product = kProduct;
  product.precision = Precision::fp8;
  EXPECT_EQ(op_ns(product_op(WorkKind::matmul, product), machine(), 1), 10'000);
}

TEST(OpPrices, AttentionIsThatOfTheKernelModel) {
  OpTemplate op{.cost = {.kind = WorkKind::attention,
                         .attention = {.tokens = 1024, .length = 4096, .heads = 8, .qk_dim = 128, .v_dim = 128}}};
  const AttentionPasses passes =
      attention_passes({.tokens = 1024, .length = 4096, .heads = 8, .qk_dim = 128, .v_dim = 128}, machine().chip);
  EXPECT_EQ(op_ns(op, machine(), 1), std::llround(1e9 * passes.forward_s));
  op.cost.attention.is_backward = true;
  EXPECT_EQ(op_ns(op, machine(), 1), std::llround(1e9 * passes.backward_s));
}

/// A block with these ops.
Graph block_of(std::vector<OpTemplate> ops) {
  const auto count = static_cast<std::int32_t>(ops.size());
  return {.op_templates = std::move(ops),
          .blocks = {{.name = "layer", .first_op_template = id_of<OpTemplateId>(0), .op_template_count = count}}};
}

OpTemplate launched(OpTemplate op, double launches) {
  op.cost.launches = launches;
  return op;
}

Machine launching_machine() {
  Machine machine = cost::machine();
  machine.chip.rates.launch_s = 2e-6;
  return machine;
}

double sum_ns(const Graph& graph, const Machine& machine, double load, std::int32_t chunks = 1) {
  const OpPrices prices(graph, machine);
  double sum = 0;
  for (std::size_t op = 0; op < graph.op_templates.size(); ++op)
    sum += prices.chunk_ns(id_of<OpTemplateId>(op), load, chunks);
  return sum;
}

TEST(OpPrices, OfABlockAddUpToTheSlowerOfDeviceAndHost) {
  const Machine machine = launching_machine();
  // 8 and 4 us of the device, one of them backward.
  OpTemplate backward = vector_op(4e6);
  backward.phase = OpPhase::backward;
  const auto block = [&](double first, double second) {
    return block_of({launched(vector_op(8e6), first), launched(backward, second)});
  };
  EXPECT_NEAR(sum_ns(block(0, 0), machine, 1), 12'000, 1e-6);
  EXPECT_NEAR(sum_ns(block(1, 0), machine, 1), 12'000, 1) << "the launch is hidden";
  EXPECT_NEAR(sum_ns(block(3, 3), machine, 1), 12'000 * std::pow(2, 0.1), 1e-6) << "as long";
  EXPECT_NEAR(sum_ns(block(10, 30), machine, 1), 80'000, 1);
}

TEST(OpPrices, OfAnOpIsWhatTheBlockGrowsByWithIt) {
  const Machine machine = launching_machine();
  std::mt19937 random(5);
  std::uniform_real_distribution<double> bytes(0, 20e6), launches(0, 8);
  for (int round = 0; round < 200; ++round) {
    std::vector<OpTemplate> ops;
    for (int op = 0; op < 6; ++op) ops.push_back(launched(vector_op(bytes(random)), launches(random)));
    const double price = OpPrices(block_of(ops), machine).chunk_ns(id_of<OpTemplateId>(0), 1, 1);
    constexpr double kPart = 1e-4;  // of the op more
    OpTemplate& first = ops.front();
    const double before = sum_ns(block_of(ops), machine, 1);
    first.cost.memory_bytes *= 1 + kPart;
    first.cost.launches *= 1 + kPart;
    EXPECT_NEAR((sum_ns(block_of(ops), machine, 1) - before) / kPart, price, 1e-3 * before);
  }
}

TEST(OpPrices, WhereTheHostWaitedALargerLoadTakesTheDevicesTime) {
  OpTemplate routed = vector_op(8e6);
  routed.routed = true;
  const Graph graph = block_of({launched(routed, 20), launched(vector_op(2e6), 20)});
  const Machine machine = launching_machine();
  EXPECT_NEAR(sum_ns(graph, machine, 1), 80'000, 1) << "40 launches";
  EXPECT_NEAR(sum_ns(graph, machine, 100), 802'000, 1);
  const OpPrices prices(graph, machine);
  EXPECT_TRUE(prices.varies(id_of<OpTemplateId>(0)));
  EXPECT_TRUE(prices.varies(id_of<OpTemplateId>(1))) << "its launches are hidden then";
  const Graph even = block_of({launched(vector_op(8e6), 20)});
  EXPECT_FALSE(OpPrices(even, machine).varies(id_of<OpTemplateId>(0)));
}

TEST(OpPrices, ChunksAreLaunchedEach) {
  const Graph graph = block_of({launched(vector_op(800e6), 3), launched(vector_op(0), 1)});
  const Machine machine = launching_machine();
  EXPECT_NEAR(10 * sum_ns(graph, machine, 1, 10), 800'000, 1) << "hidden";
  EXPECT_NEAR(sum_ns(graph, machine, 1, 1'000'000), 8'000, 1);
}

/// 5 us of kernels and 6 of communication that may run beside them do not hide 9 us of launches.
TEST(OpPrices, WhatRunsBesideKernelsHidesNoLaunches) {
  Machine machine = launching_machine();
  machine.chip.rates.hop_s = 0;
  const OpTemplate exchange{.lane = Lane::intra_comm,
                            .cost = {.kind = WorkKind::transfer,
                                     .link_bytes = 600e3,
                                     .group = {.ranks = 4, .per_node = 4, .pattern = GroupShape::Pattern::exchange}}};
  const auto prices_of = [&](double launches) {
    const Graph graph = block_of({launched(vector_op(5e6), launches), exchange});
    const OpPrices prices(graph, machine);
    return std::pair(prices.ns(id_of<OpTemplateId>(0), 1), prices.ns(id_of<OpTemplateId>(1), 1));
  };
  EXPECT_GE(prices_of(4.5).first, 9'000);
  EXPECT_LE(prices_of(4.5).second, 6'000);
  EXPECT_EQ(prices_of(0.5), std::pair(std::int64_t{5'000}, std::int64_t{6'000}));
  EXPECT_EQ(prices_of(100).second, 0) << "hidden behind the host";
}

/// What a weight's gradient is added to is as large in every chunk.
TEST(OpPrices, WorkThatChunksDoNotShareOutHidesTheirLaunches) {
  OpTemplate op = product_op(WorkKind::matmul, kProduct, 50e6);
  op.cost.product.has_inner_tokens = true;
  const Graph graph = block_of({launched(op, 3)});
  EXPECT_NEAR(sum_ns(graph, launching_machine(), 1, 1'000'000), 51'000, 1) << "and operands of a product";
}

/// A ring's hops are the host's too: launches behind it wait for them. What the optimizer runs once a step is no pass.
TEST(OpPrices, HopsOfRingsKeepTheHostAndTheOptimizerIsByItself) {
  const OpTemplate ring{.lane = Lane::intra_comm,
                        .cost = {.kind = WorkKind::transfer,
                                 .link_bytes = 100e3,
                                 .launches = 1,
                                 .group = {.ranks = 8, .per_node = 8, .pattern = GroupShape::Pattern::ring}}};
  const Machine machine = launching_machine();
  EXPECT_NEAR(sum_ns(block_of({ring, launched(vector_op(0), 50)}), machine, 1), 102'000 + 9'000, 1);
  OpTemplate update = vector_op(8e6);
  update.phase = OpPhase::optimizer;
  EXPECT_NEAR(sum_ns(block_of({launched(update, 50)}), machine, 1), 8'000, 1e-6);
}

TEST(OpPrices, OnlyRoutedWorkGrowsWithTheLoad) {
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

TEST(OpPrices, CommunicationTakesTheLinkOfItsGroup) {
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

TEST(OpPrices, GivenCostsAreTakenAsTheyAre) {
  OpTemplate op{.cost = {.kind = WorkKind::given, .given = 1234.4}, .routed = true};
  EXPECT_EQ(op_ns(op, machine(), 3), 1234);
}

TEST(OpPrices, DurationsUseTheFullestLoadOfEachSiteAndScaleTheComputeLaneOnly) {
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
