// Parts of newer models and layouts in the graph: what each changes, and that it changes nothing else.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "planner/graph_build/device_rules.h"
#include "planner/graph_build/static_memory.h"
#include "planner/graph_build/step_graph.h"
#include "tests/support/graph_checks.h"
#include "tests/support/pangu.h"
#include "tests/support/random_job.h"
#include "tests/support/sanitized.h"

namespace tidemark::graph_build {
namespace {

Graph build(const JobSpec& job, std::int32_t rank = 0) {
  auto graph = build_step_graph(job, testing::ascend_910b(), rank, 1.0);
  EXPECT_TRUE(graph.ok());
  return std::move(graph).value();
}

/// Llama 3 70B, a stage on one device, so that widths and tokens are whole.
JobSpec plain_llama() {
  JobSpec job = testing::llama3_70b_job();
  job.parallel.tensor = job.parallel.context = 1;
  job.parallel.sequence_parallel = false;
  return job;
}

/// Saved bytes of one block, by storage.
std::map<std::string, Bytes> saved(const Graph& graph, const std::string& block_name) {
  std::map<std::string, Bytes> bytes;
  for (const Block& block : graph.blocks) {
    if (block.name != block_name) continue;
    for (std::int32_t i = 0; i < block.storage_count; ++i) {
      const StorageTemplate& t =
          graph.storage_templates[row(block.first_storage_template) + static_cast<std::size_t>(i)];
      if (t.saved_for_backward) bytes[t.module_path + "." + t.name] += storage_bytes(t, 1.0);
    }
  }
  return bytes;
}

Bytes sum(const std::map<std::string, Bytes>& bytes) {
  Bytes total = 0;
  for (const auto& [name, of_one] : bytes) total += of_one;
  return total;
}

const OpTemplate& op_named(const Graph& graph, const std::string& block_name, const std::string& name) {
  for (const Block& block : graph.blocks)
    for (std::int32_t i = 0; block.name == block_name && i < block.op_template_count; ++i) {
      const OpTemplate& op = graph.op_templates[row(block.first_op_template) + static_cast<std::size_t>(i)];
      if (op.name == name) return op;
    }
  ADD_FAILURE() << "no " << name << " in " << block_name;
  static const OpTemplate none;
  return none;
}

TEST(RandomParts, MakeConsistentGraphs) {
  testing::JobGenerator generator(20261202);
  for (int i = 0; i < testing::cases(60); ++i) {
    const JobSpec job = generator.next_of_newer_parts();
    const auto problems = find_problems(job);
    ASSERT_TRUE(problems.empty()) << i << ": " << problems.front().key << ": " << problems.front().message;
    std::vector<Graph> graphs;
    for (std::int32_t rank = 0; rank < job.parallel.pipeline; ++rank) graphs.push_back(build(job, rank));
    for (const Graph& graph : graphs) EXPECT_EQ(testing::check_graph(graph), "") << i << ", rank " << graph.rank;
    EXPECT_EQ(testing::check_messages(graphs), "") << i;
  }
}

// ---- QK norm ------------------------------------------------------------------------------------------------------

TEST(QkNorm, SavesQueriesAndKeysOnceMore) {
  JobSpec job = plain_llama();
  const Bytes before = sum(saved(build(job), "dense_layer"));
  job.model.attention.qk_norm = true;
  const std::map<std::string, Bytes> after = saved(build(job), "dense_layer");
  const Bytes token = 2 * (64 + 8) * 128;  // what estimate adds for --qk-layernorm
  EXPECT_EQ(sum(after) - before, 8192 * token);
  EXPECT_FALSE(after.contains("self_attention.v")) << "a view of what the norms read";
  EXPECT_EQ(after.at("self_attention.qkv"), Bytes{8192} * 2 * (64 + 2 * 8) * 128);
}

TEST(QkNorm, CanBeMadeAgainWithoutTheProjection) {
  JobSpec job = plain_llama();
  job.model.attention.qk_norm = true;
  const Graph graph = build(job);
  std::map<std::string, std::size_t> steps;
  for (const Recipe& recipe : graph.recipes) steps[recipe.name] = recipe.steps.size();
  EXPECT_EQ(steps.at("query_key"), 2U);        // norms and rotation
  EXPECT_EQ(steps.at("query_key_value"), 1U);  // the projection
}

// ---- windows ------------------------------------------------------------------------------------------------------

TEST(Window, ChangesTheKernelsTimeAndNoMemory) {
  JobSpec job = plain_llama();
  job.parallel.pipeline = 1;
  job.parallel.virtual_pipeline = 1;
  testing::fill_slots(job);
  const Graph whole = build(job);
  job.model.attention.window = 1024;
  job.model.attention.global_every = 6;
  const Graph graph = build(job);
  EXPECT_EQ(saved(graph, "windowed_dense_layer"), saved(whole, "dense_layer"));
  EXPECT_EQ(saved(graph, "dense_layer"), saved(whole, "dense_layer"));
  for (const char* name : {"attention.core", "attention.core_backward"}) {
    const OpCost& all = op_named(whole, "dense_layer", name).cost;
    EXPECT_EQ(op_named(graph, "dense_layer", name).cost.flops, all.flops);
    // Of a sequence of s the first w queries attend to half the window on average, the others to all of it.
    const double s = 8192, w = 1024;
    EXPECT_DOUBLE_EQ(op_named(graph, "windowed_dense_layer", name).cost.flops / all.flops,
                     (w * w / 2 + (s - w) * w) / (s * s / 2));
  }
  std::map<std::string, int> layers;
  for (const Site& site : graph.sites)
    if (site.micro_batch == 0 && site.layer >= 0) ++layers[graph.blocks[row(site.block)].name];
  EXPECT_EQ(layers.at("dense_layer"), 80 / 6);
  EXPECT_EQ(layers.at("windowed_dense_layer"), 80 - 80 / 6);
}

TEST(Window, AsLongAsTheSequenceIsNone) {
  ModelSpec model = testing::llama3_70b_model();
  const TokenFlops none = flops_per_token(model);
  model.attention.window = model.sequence;
  EXPECT_DOUBLE_EQ(flops_per_token(model).causal, none.causal);
  model.attention.window = model.sequence / 8;
  EXPECT_LT(flops_per_token(model).causal, none.causal);
}

// ---- fp8 ----------------------------------------------------------------------------------------------------------

TEST(Fp8, KeepsWhatProductsAloneReadInEightBits) {
  JobSpec job = plain_llama();
  const std::map<std::string, Bytes> before = saved(build(job), "dense_layer");
  job.parallel.compute = ParallelSpec::Compute::fp8;
  std::map<std::string, Bytes> after = saved(build(job), "dense_layer");
  // The attention kernel's output stays, with an 8-bit copy for the projection.
  EXPECT_EQ(after.at("self_attention.attention_out_fp8"), Bytes{8192} * 64 * 128);
  after.erase("self_attention.attention_out_fp8");
  for (const auto& [name, bytes] : before) {
    const bool narrowed = name == "input_norm.y1" || name == "mlp_norm.y2" || name == "mlp.act_out";
    EXPECT_EQ(after.at(name), narrowed ? bytes / 2 : bytes) << name;
  }
  EXPECT_EQ(after.size(), before.size());
}

TEST(Fp8, RoutersReadSixteenBits) {
  JobSpec job = testing::mixtral_job();
  const std::map<std::string, Bytes> before = saved(build(job), "moe_layer");
  job.parallel.compute = ParallelSpec::Compute::fp8;
  const std::map<std::string, Bytes> after = saved(build(job), "moe_layer");
  for (const auto& [name, bytes] : before) {
    const bool narrowed = name == "input_norm.y1" || name == "mlp.experts.fc1_in" || name == "mlp.experts.act_out";
    EXPECT_EQ(after.at(name), narrowed ? bytes / 2 : bytes) << name;
  }
}

TEST(Fp8, RunsLinearLayersAtThatRateAndNothingElse) {
  JobSpec job = testing::mixtral_job();
  job.parallel.compute = ParallelSpec::Compute::fp8;
  int narrow = 0;
  for (std::int32_t rank = 0; rank < job.parallel.pipeline; ++rank) {
    const Graph graph = build(job, rank);
    for (const OpTemplate& op : graph.op_templates) {
      if (op.cost.kind != WorkKind::matmul && op.cost.kind != WorkKind::grouped_matmul) continue;
      const bool other = op.name.find("router") != std::string::npos || op.name.find("logits") != std::string::npos;
      EXPECT_EQ(op.cost.product.precision == Precision::fp8, !other) << op.name;
      narrow += other ? 0 : 1;
    }
  }
  EXPECT_GT(narrow, 0);
}

TEST(Fp8, WeightsHaveTwoCopiesBesideThem) {
  JobSpec job = plain_llama();
  const StaticMemory before = static_memory(job, 1);
  job.parallel.compute = ParallelSpec::Compute::fp8;
  const StaticMemory after = static_memory(job, 1);
  const std::int64_t layers = 80 / 4;
  const std::int64_t matrices =
      std::int64_t{8192} * (64 + 2 * 8) * 128 + std::int64_t{64} * 128 * 8192 + std::int64_t{3} * 8192 * 28672;
  EXPECT_EQ(after.parameter_bytes - before.parameter_bytes, 2 * layers * matrices);
  EXPECT_EQ(after.gradient_bytes, before.gradient_bytes);
  EXPECT_EQ(after.optimizer_bytes, before.optimizer_bytes);
}

TEST(Fp8, IsForChipsThatHaveARateForIt) {
  JobSpec job = testing::mixtral_job();
  Machine machine = testing::ascend_910b();
  EXPECT_TRUE(find_device_problems(job, machine).empty());
  job.parallel.compute = ParallelSpec::Compute::fp8;
  ASSERT_EQ(find_device_problems(job, machine).size(), 1U);
  EXPECT_EQ(find_device_problems(job, machine).front().key, "precision.compute");
  machine.chip.sheet.flops_per_s[static_cast<std::size_t>(Precision::fp8)] = 1e15;
  EXPECT_TRUE(find_device_problems(job, machine).empty());
}

// ---- ZeRO ---------------------------------------------------------------------------------------------------------

JobSpec sharded_llama(bool parameters) {
  JobSpec job = plain_llama();
  ParallelSpec& p = job.parallel;
  p.pipeline = p.virtual_pipeline = 1;
  p.data = 64;
  p.global_batch = 128;
  p.sharded_gradients = true;
  p.sharded_parameters = parameters;
  testing::fill_slots(job);
  return job;
}

constexpr std::int64_t kLlamaParameters = 70'553'706'496;

TEST(Sharding, DividesWhatTheStepKeeps) {
  for (const bool parameters : {false, true}) {
    const StaticMemory memory = static_memory(sharded_llama(parameters), 0);
    EXPECT_EQ(memory.dense_parameters, kLlamaParameters);
    EXPECT_EQ(memory.parameter_bytes, 2 * kLlamaParameters / (parameters ? 64 : 1));
    EXPECT_EQ(memory.gradient_bytes, 4 * kLlamaParameters / 64);
    EXPECT_EQ(memory.optimizer_bytes, 12 * kLlamaParameters / 64);
  }
}

/// Bytes on the links over a step by what the op's name holds.
double sent(const Graph& graph, const std::string& part) {
  double bytes = 0;
  for (const Op& op : graph.ops) {
    const OpTemplate& t = graph.op_templates[row(op.op_template)];
    if (t.name.find(part) != std::string::npos) bytes += t.cost.link_bytes;
  }
  return bytes;
}

TEST(Sharding, SendsWeightsForwardAndGradientsBackwardOfEveryMicroBatch) {
  const double others = 63.0 / 64, parameters = static_cast<double>(kLlamaParameters);
  const Graph two = build(sharded_llama(false)), three = build(sharded_llama(true));
  for (const Graph* graph : {&two, &three}) {
    EXPECT_NEAR(sent(*graph, "gradient_reduce_scatter"), 2 * 4 * parameters * others, 1e3);
    EXPECT_EQ(sent(*graph, "gradient."), 0) << "nothing is reduced at the end of the step";
  }
  // The forward pass of both micro-batches; what is gathered again is the policy's affair.
  EXPECT_NEAR(sent(three, "_all_gather"), 2 * 2 * parameters * others, 1e3);
  EXPECT_EQ(sent(two, "weights.dense_all_gather"), 0);
  EXPECT_NEAR(sent(two, "parameter."), 2 * parameters * others, 1e3) << "updated parameters, once a step";
}

TEST(Sharding, GathersALayerAtATimeAndCanDoItAgain) {
  const Graph graph = build(sharded_llama(true));
  const std::map<std::string, Bytes> layer = saved(graph, "dense_layer");
  const std::int64_t elements = std::int64_t{8192} * (64 + 2 * 8) * 128 + std::int64_t{64} * 128 * 8192 +
                                std::int64_t{3} * 8192 * 28672 + 2 * 8192;
  EXPECT_EQ(layer.at("weights.dense_gathered_weights"), 2 * elements);
  int recipes = 0;
  for (const Recipe& recipe : graph.recipes) recipes += recipe.name == "dense_gathered_weights" ? 1 : 0;
  EXPECT_EQ(recipes, 3);  // the embedding, a layer, the head
  // Whole weights are read wherever a pass reads weights: shards by gathers, reductions and the update alone.
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    const OpTemplate& t = graph.template_of(id_of<OpId>(op));
    if (t.lane != Lane::compute || t.phase == OpPhase::optimizer) continue;
    for (const Access& access : graph.accesses_of(id_of<OpId>(op)))
      EXPECT_FALSE(testing::lives_all_step(graph.template_of(access.storage).role)) << t.name;
  }
}

TEST(Sharding, OverOneRankIsNone) {
  JobSpec job = plain_llama();
  job.parallel.pipeline = job.parallel.virtual_pipeline = job.parallel.data = 1;
  job.parallel.global_batch = 1;
  testing::fill_slots(job);
  const Graph whole = build(job);
  job.parallel.sharded_gradients = job.parallel.sharded_parameters = true;
  const Graph sharded = build(job);
  EXPECT_EQ(sharded.ops.size(), whole.ops.size());
  EXPECT_EQ(sharded.storages.size(), whole.storages.size());
}

TEST(Sharding, IsRefusedWhereItIsNotPlanned) {
  const auto key_of = [](const JobSpec& job) {
    const auto problems = find_problems(job);
    return problems.empty() ? std::string() : problems.front().key + ": " + problems.front().message;
  };
  JobSpec job = sharded_llama(true);
  EXPECT_EQ(key_of(job), "");
  job.parallel.pipeline = 4;
  testing::fill_slots(job);
  EXPECT_EQ(key_of(job).find("parallel.zero: `parallel.zero: 3`, or `parallel.fsdp2: true`, with pipeline 4 is"), 0U)
      << key_of(job);
  job.parallel.sharded_parameters = false;
  EXPECT_EQ(key_of(job), "");
  job.parallel.overlap_forward_backward = true;
  EXPECT_EQ(key_of(job).find("parallel.zero: `parallel.zero: 2` with overlap_forward_backward"), 0U) << key_of(job);
  job.parallel.overlap_forward_backward = false;
  job.parallel.compute = ParallelSpec::Compute::fp8;
  EXPECT_EQ(key_of(job).find("parallel.zero: `parallel.zero: 2` with products in fp8"), 0U) << key_of(job);
}

}  // namespace
}  // namespace tidemark::graph_build
