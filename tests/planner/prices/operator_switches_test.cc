// Fused operators against the kernels they stand for: that the graph's ops are found, on how many elements, and that
// switching them costs what counting says.

#include "planner/prices/operator_switches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "planner/graph_build/device_shapes.h"
#include "planner/graph_build/step_graph.h"
#include "planner/prices/operator_use.h"
#include "tests/support/pangu.h"
#include "tests/support/random_job.h"

namespace tidemark::prices {
namespace {

constexpr std::array kOperators = {Operator::rms_norm, Operator::swiglu, Operator::rotary, Operator::permute,
                                   Operator::unpermute};

/// Kernels that are no operator of the table: sums of two tensors, copies of rows between experts, the ends.
bool is_another_kernel(const std::string& name) {
  static constexpr std::array kParts = {"_residual", "moe.sum", "sort_rows", "embedding.", ".loss", "logits_cast"};
  return std::ranges::any_of(kParts, [&](const char* part) { return name.find(part) != std::string::npos; });
}

struct Elements {
  double forward = 0, backward = 0;
};

/// Of each operator over the templates of one rank. Fails for a vector op that is no known kernel.
std::map<Operator, Elements> elements_of(const graph_build::JobSpec& job, std::int32_t rank) {
  const Machine machine = testing::ascend_910b();
  const Graph graph = graph_build::build_step_graph(job, machine, rank, 1.0).value();
  const graph_build::DeviceShapes shapes = graph_build::device_shapes(job, machine);
  std::map<Operator, Elements> elements;
  for (const std::int32_t op : first_ops(graph)) {
    if (op < 0) continue;
    const OpTemplate& of = graph.template_of(static_cast<OpId>(op));
    const auto use = operator_use(graph, static_cast<OpId>(op), job.model, shapes);
    const bool is_pass = of.phase == OpPhase::forward || of.phase == OpPhase::backward;
    const bool is_gelu =
        job.model.activation == graph_build::Activation::gelu && of.name.find(".activation") != std::string::npos;
    if (!use) {
      EXPECT_TRUE(of.cost.kind != WorkKind::vector || !is_pass || is_gelu || is_another_kernel(of.name)) << of.name;
      continue;
    }
    EXPECT_GT(use->elements, 0) << of.name;
    (use->is_backward ? elements[use->op].backward : elements[use->op].forward) += use->elements;
  }
  return elements;
}

TEST(OperatorUse, FindsEveryOperatorOfTheReferenceJob) {
  const auto elements = elements_of(testing::pangu_job(), 0);
  for (const Operator op : kOperators) EXPECT_TRUE(elements.contains(op)) << static_cast<int>(op);
}

/// What went forward comes back.
TEST(OperatorUse, BackwardWorksOnAsManyElementsAsForward) {
  testing::JobGenerator random(11);
  for (int round = 0; round < 24; ++round) {
    const graph_build::JobSpec job = random.next();
    for (const std::int32_t rank : {0, job.parallel.pipeline - 1})
      for (const auto& [op, sum] : elements_of(job, rank))
        EXPECT_NEAR(sum.forward, sum.backward, 1e-9 * sum.forward) << round << " " << static_cast<int>(op);
  }
}

/// One dense layer and its head on one device: every count by hand.
graph_build::JobSpec dense_job(std::size_t layers) {
  graph_build::JobSpec job{
      .model = {.name = "dense",
                .hidden = 512,
                .vocabulary = 1024,
                .sequence = 256,
                .layers = testing::layer_kinds(layers, 0),
                .attention = {.kind = graph_build::AttentionSpec::Kind::gqa, .heads = 8, .kv_heads = 2, .head_dim = 64},
                .dense_width = 1536},
      .parallel = {.micro_batch = 2, .global_batch = 2},
      .device = "ascend-910b-64g"};
  testing::fill_slots(job);
  return job;
}

TEST(OperatorUse, CountsTheElementsOfALayerByHand) {
  auto elements = elements_of(dense_job(1), 0);
  constexpr double kTokens = 2 * 256;
  EXPECT_EQ(elements[Operator::rms_norm].forward, 3 * kTokens * 512);
  EXPECT_EQ(elements[Operator::swiglu].forward, kTokens * 1536);
  EXPECT_EQ(elements[Operator::rotary].forward, kTokens * (8 + 2) * 64);
  EXPECT_FALSE(elements.contains(Operator::permute));
}

SwitchPrice find(const std::vector<SwitchPrice>& prices, std::string_view name) {
  const auto found = std::ranges::find(prices, name, &SwitchPrice::name);
  EXPECT_NE(found, prices.end()) << name;
  return *found;
}

std::vector<SwitchPrice> prices_of(const graph_build::JobSpec& job, const Machine& machine) {
  const auto step = KeptStep::build({.job = job, .machine = machine});
  EXPECT_TRUE(step.ok());
  auto prices = operator_prices(step.value());
  EXPECT_TRUE(prices.ok());
  return prices.value();
}

/// A step that waits for the host alone takes as many launches longer as the plain expression has kernels.
TEST(OperatorPrices, AreLaunchesWhereTheHostIsSlow) {
  Machine slow = testing::ascend_910b();
  slow.chip.rates.launch_s = 1;
  constexpr std::size_t kLayers = 3;
  const std::vector<SwitchPrice> prices = prices_of(dense_job(kLayers), slow);
  const auto more_s = [&](std::string_view name) {
    const SwitchPrice price = find(prices, name);
    return 1e-9 * static_cast<double>(price.off->step_ns - price.on->step_ns);
  };
  EXPECT_NEAR(more_s("fused RMSNorm"), (2 * kLayers + 1) * (7 + 15), 0.1);
  EXPECT_NEAR(more_s("fused SwiGLU"), kLayers * (1 + 3), 0.1);
  EXPECT_NEAR(more_s("fused rotary embedding"), kLayers * 2 * (4 + 4), 0.1);
  EXPECT_NEAR(more_s("gradients added in the product"), kLayers * 4 + 1, 0.1);
}

/// One that waits for memory takes the bytes longer that they read and write.
TEST(OperatorPrices, AreBytesWhereMemoryIsSlow) {
  Machine slow = testing::ascend_910b();
  slow.chip.rates.launch_s = 0;
  slow.chip.rates.memory = 1;
  slow.chip.sheet.memory_bytes_per_s = 1e6;
  const SwitchPrice norm = find(prices_of(dense_job(1), slow), "fused RMSNorm");
  constexpr double kElements = 3 * 2 * 256 * 512;
  const double seconds = kElements * ((36 - 4) + (92 - 6)) / 1e6;
  EXPECT_NEAR(1e-9 * static_cast<double>(norm.off->step_ns - norm.on->step_ns), seconds, 1e-3 * seconds);
}

/// fp32 input and output before the weight, in the place of the input.
TEST(OperatorPrices, KeepWhatAutogradKeeps) {
  const graph_build::JobSpec job = dense_job(1);
  const Machine machine = testing::ascend_910b();
  const Graph graph = graph_build::build_step_graph(job, machine, 0, 1.0).value();
  const auto saved = [](const Graph& of) {
    Bytes bytes = 0;
    for (const Storage& storage : of.storages)
      if (of.storage_templates[row(storage.storage_template)].saved_for_backward) bytes += storage.bytes;
    return bytes;
  };
  ChangedRank rank{.graph = graph};
  unfuse(Operator::rms_norm, {.job = job, .machine = machine}, rank);
  EXPECT_TRUE(rank.resizes);
  EXPECT_EQ(saved(rank.graph) - saved(graph), 4 * 3 * 2 * 256 * 512);
}

/// Products of an expert one by one take what their waves take; a grouped kernel takes all of them together.
TEST(OperatorPrices, LoopsOverExpertsLaunchOneProductEach) {
  Machine slow = testing::ascend_910b();
  slow.chip.rates.launch_s = 1;
  graph_build::JobSpec job = testing::small_job();
  job.parallel.pipeline = 1;
  job.parallel.global_batch = 1;
  job.model.mtp_layers = 0;
  testing::fill_slots(job);
  const SwitchPrice price = find(prices_of(job, slow), "grouped expert products");
  // Two products, each with two gradients, of 8 experts in 3 layers.
  EXPECT_NEAR(1e-9 * static_cast<double>(price.off->step_ns - price.on->step_ns), 3 * 2 * 3 * (8 - 1), 0.1);
}

TEST(OperatorPrices, PlainKernelsAreNeverFasterNorSmaller) {
  testing::JobGenerator random(5);
  for (int round = 0; round < 10; ++round) {
    const std::vector<SwitchPrice> prices = prices_of(random.next(), testing::ascend_910b());
    for (const SwitchPrice& price : prices) {
      if (!price.off || price.name == "grouped expert products") continue;  // a grouped kernel may reach less
      EXPECT_GE(price.off->step_ns, price.on->step_ns) << round << " " << price.name;
      EXPECT_GE(price.off->peak_bytes, price.on->peak_bytes) << round << " " << price.name;
    }
  }
}

TEST(OperatorPrices, SayWhyADenseJobHasNoneOfExperts) {
  const std::vector<SwitchPrice> prices = prices_of(dense_job(1), testing::ascend_910b());
  for (const char* name : {"fused permute", "fused unpermute", "grouped expert products"}) {
    const SwitchPrice price = find(prices, name);
    EXPECT_FALSE(price.off || price.on) << name;
    EXPECT_FALSE(price.why_not.empty()) << name;
  }
}

}  // namespace
}  // namespace tidemark::prices
