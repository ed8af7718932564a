// Parameters of a rank, and the bytes of training state each of them brings.

#include <gtest/gtest.h>

#include "planner/estimate/optimizer_step.h"
#include "planner/estimate/parameter_list.h"
#include "planner/estimate/state_bytes.h"
#include "planner/graph_build/static_memory.h"
#include "tests/planner/estimate/memory_runs.h"
#include "tests/support/pangu.h"

namespace tidemark::estimate::testing {
namespace {

double elements_of(const std::vector<Parameter>& parameters, bool expert) {
  double sum = 0;
  for (const Parameter& parameter : parameters)
    if (parameter.expert == expert) sum += static_cast<double>(parameter.elements);
  return sum;
}

TEST(RankParameters, GptFollowsTheClosedForm) {
  const double h = 512;
  const double layers = 12 * (12 * h * h + 13 * h);
  EXPECT_EQ(count_elements(rank_parameters(gpt_run(), 0)), layers + (50304 + 1024) * h + 2 * h);
}

/// Two descriptions of one layout, two lists of parameters written apart from each other.
void expect_same_parameters(const graph_build::JobSpec& job) {
  const TrainingRun run = run_of(job);
  for (std::int32_t stage = 0; stage < job.parallel.pipeline; ++stage) {
    const graph_build::StaticMemory planned = graph_build::static_memory(job, stage);
    const std::vector<Parameter> parameters = rank_parameters(run, stage);
    EXPECT_EQ(elements_of(parameters, false), static_cast<double>(planned.dense_parameters)) << stage;
    EXPECT_EQ(elements_of(parameters, true), static_cast<double>(planned.expert_parameters)) << stage;
    // The planner rounds the shard of each tensor group up.
    EXPECT_NEAR(state_of(run, parameters).total(), static_cast<double>(planned.total()), 1e4) << stage;
  }
}

TEST(RankParameters, ReferenceJobEqualsThePlannersOwnCount) {
  graph_build::JobSpec job = tidemark::testing::pangu_job();
  job.parallel.head_stage = -1;  // launch scripts know no head apart
  expect_same_parameters(job);
}
TEST(RankParameters, GroupedQueriesEqualThePlannersOwnCount) {
  expect_same_parameters(tidemark::testing::llama3_70b_job());
}
TEST(RankParameters, ExpertsSplitByTensorEqualThePlannersOwnCount) {
  expect_same_parameters(tidemark::testing::mixtral_job());
}

TEST(RankParameters, NormsAndBiasesOfQueriesEqualThePlannersOwnCount) {
  graph_build::JobSpec job = tidemark::testing::llama3_70b_job();
  job.model.attention.qk_norm = job.model.attention.qkv_bias = true;
  expect_same_parameters(job);
}
TEST(RankParameters, GatesOfSharedExpertsEqualThePlannersOwnCount) {
  graph_build::JobSpec job = tidemark::testing::mixtral_job();
  job.model.moe.shared_width = 4096;
  job.model.moe.shared_gate = true;
  expect_same_parameters(job);
}

TEST(RankParameters, StagesOfTheReferenceModelAddUpToIt) {
  const graph_build::JobSpec job = tidemark::testing::pangu_job();
  graph_build::JobSpec whole = job;
  whole.parallel.tensor = whole.parallel.expert = 1;
  whole.parallel.sequence_parallel = whole.parallel.tensor_extends_expert = false;
  const TrainingRun run = run_of(whole);
  double sum = 0;
  for (std::int64_t stage = 0; stage < 16; ++stage) sum += count_elements(rank_parameters(run, stage));
  // The last stage predicts further tokens with a copy of the embedding, which is no parameter of the model.
  const double copy = 153600.0 * 7680;
  EXPECT_NEAR(sum - copy, graph_build::count_parameters(job.model).total_with_mtp, 3 * 7680);
}

TEST(RankParameters, SharedKeysExistOnEveryNthLayerOnly) {
  TrainingRun run = ascend_run();
  fill_layout(run, 4);
  fill_world(run);
  const double all = count_elements(rank_parameters(run, 0));
  run.model.attention.share_factor = 2;
  EXPECT_EQ(all - count_elements(rank_parameters(run, 0)), 2 * 2 * 4096.0 * 4096);
}

TEST(RankParameters, TiedHeadIsCopiedWhereTheEmbeddingIsNot) {
  TrainingRun run = gpt_run();
  run.parallel.pipeline = 2;
  fill_layout(run, 6);
  fill_world(run);
  double sum = 0;
  for (const std::int64_t stage : {0, 1}) sum += count_elements(rank_parameters(run, stage));
  EXPECT_EQ(sum - count_elements(rank_parameters(gpt_run(), 0)), 50304.0 * 512);
}

TEST(RankParameters, MindSpeedKeepsExpertsOfOneProductInOneTensor) {
  TrainingRun run = ascend_run();
  run.model.moe = {.experts = 16, .width = 12800, .grouped_gemm = true, .is_moe = {true}};
  run.parallel.expert = 8;
  run.parallel.data = 8;
  run.model.gated = false;
  fill_layout(run, 1);
  fill_world(run);
  std::int64_t largest = 0;
  for (const Parameter& parameter : rank_parameters(run, 0))
    if (parameter.expert) largest = std::max(largest, parameter.elements);
  EXPECT_EQ(largest, 2 * 4096 * 12800);
  run.model.moe.grouped_gemm = false;
  for (const Parameter& parameter : rank_parameters(run, 0)) {
    if (parameter.expert) {
      EXPECT_LE(parameter.elements, 4096 * 12800);
    }
  }
}

/// Bytes of one dense parameter.
double bytes_each(const TrainingRun& run, ParameterRole role = ParameterRole::linear) {
  return state_of(run, Parameter{.elements = 1, .role = role}).total();
}

TEST(StateBytes, EighteenBytesWithoutSharding) {
  EXPECT_DOUBLE_EQ(bytes_each(gpt_run()), 18);
}

TEST(StateBytes, EveryMode) {
  TrainingRun run = gpt_run();
  run.parallel.data = 4;
  run.parallel.context = 2;
  OptimizerState& optimizer = run.optimizer;
  optimizer.distributed = true;
  EXPECT_DOUBLE_EQ(bytes_each(run), 6 + 12.0 / 8);  // context ranks share the shards
  optimizer.gradient_16bit = true;
  EXPECT_DOUBLE_EQ(bytes_each(run), 4 + 16.0 / 8);
  optimizer.precision_aware = true;
  optimizer.exp_avg_bytes = optimizer.exp_avg_sq_bytes = 1;
  EXPECT_DOUBLE_EQ(bytes_each(run), 4 + 4.0 / 8);  // of the master copy only what the bf16 weight lacks
  run.platform.lts = true;
  EXPECT_DOUBLE_EQ(bytes_each(run), 4 + 6.0 / 8);
  run.platform.lts = false;
  run.quantization = {.used = true, .parameters = true};
  EXPECT_DOUBLE_EQ(bytes_each(run), 4 + 6.0 / 8);
  run.quantization = {};
  optimizer = {.distributed = true, .host_share = 0.5};
  EXPECT_DOUBLE_EQ(bytes_each(run), 6 + 6.0 / 8);
  optimizer = {.distributed = true, .fsdp = true};
  EXPECT_DOUBLE_EQ(bytes_each(run), 18.0 / 8);
  optimizer = {.distributed = true, .reuse_fp32_parameter = true};
  EXPECT_DOUBLE_EQ(bytes_each(run), 6 + 10.0 / 8);
  optimizer.moments_16bit = true;
  EXPECT_DOUBLE_EQ(bytes_each(run), 6 + 6.0 / 8);
  optimizer = {.distributed = true, .on_host = true};
  EXPECT_DOUBLE_EQ(bytes_each(run), 6);
  optimizer = {.frozen_reference = true};
  EXPECT_DOUBLE_EQ(bytes_each(run), 20);
  optimizer = {.kind = Optimizer::sgd};
  EXPECT_DOUBLE_EQ(bytes_each(run), 14);
  optimizer = {};
  run.precision = Precision::fp32;
  EXPECT_DOUBLE_EQ(bytes_each(run), 16);
}

TEST(StateBytes, MuonKeepsOneMomentOfMatrices) {
  TrainingRun run = gpt_run();
  run.optimizer.kind = Optimizer::muon;
  EXPECT_DOUBLE_EQ(bytes_each(run), 14);
  EXPECT_DOUBLE_EQ(bytes_each(run, ParameterRole::embedding), 18);
  EXPECT_DOUBLE_EQ(bytes_each(run, ParameterRole::vector), 18);
}

TEST(StateBytes, ExpertsAreShardedOverTheirOwnGroup) {
  TrainingRun run = gpt_run();
  run.optimizer.distributed = true;
  run.parallel.data = 8;
  run.parallel.expert_data = 2;
  EXPECT_DOUBLE_EQ(state_of(run, {.elements = 1, .expert = true}).total(), 6 + 12.0 / 2);
  run.parallel.optimizer_instances = 2;
  EXPECT_DOUBLE_EQ(state_of(run, {.elements = 1, .expert = true}).total(), 6 + 12.0);
  EXPECT_DOUBLE_EQ(bytes_each(run), 6 + 12.0 / 4);
}

/// Latent attention, a dense and an expert layer, no-op layers and multi-token prediction over two stages of four
/// ranks: 16,809.0 and 20,536.3 MiB were measured.
TEST(StateBytes, LatentAttentionWithExpertsOnTwoStages) {
  TrainingRun run = ascend_run();
  Model& model = run.model;
  model.hidden = 7168;
  model.ffn = 18432;
  model.mtp_layers = 1;
  model.vocabulary.padded = 129280;
  model.attention = {.heads = 128,
                     .groups = 128,
                     .head_dim = 56,
                     .multi_latent = true,
                     .q_lora_rank = 1536,
                     .kv_lora_rank = 512,
                     .qk_norm = true,
                     .dropout = 0,
                     .use_flash = true};
  model.moe = {.experts = 16, .top_k = 8, .width = 2048, .shared_width = 2048, .grouped_gemm = true};
  model.moe.dispatcher = Dispatcher::alltoall;
  model.moe.is_moe = {false, true, true, true};
  run.optimizer.reuse_fp32_parameter = true;
  run.recompute = {.granularity = Recompute::Granularity::full, .method = Recompute::Method::uniform, .layers = 1};
  run.parallel.pipeline = 2;
  run.parallel.expert = 4;
  run.parallel.data = 4;
  run.batch = {.micro = 1, .global = 8, .micro_batches = 2};
  fill_layout(run, 2);
  run.parallel.chunks[1][0].layers.clear();
  fill_world(run);
  EXPECT_NEAR(estimate(run, 0).steady_bytes / kMiB, 16808.51, 0.01);
  EXPECT_NEAR(estimate(run, 4).steady_bytes / kMiB, 20535.76, 0.01);
}

/// Only the layer-wise optimizer shards, and it comes with the distributed one.
TEST(StateBytes, MuonIsShardedOnlyWithTheDistributedOptimizer) {
  TrainingRun run = gpt_run();
  run.parallel.data = 8;
  run.optimizer.kind = Optimizer::muon;
  EXPECT_DOUBLE_EQ(bytes_each(run), 14);
  run.optimizer.distributed = true;
  EXPECT_DOUBLE_EQ(bytes_each(run), 6 + 8.0 / 8);
}

TEST(RankParameters, ARepeatedPredictionLayerIsHeldOnce) {
  TrainingRun run = gpt_run();
  const double none = count_elements(rank_parameters(run, 0));
  run.model.mtp_layers = 1;
  fill_layout(run, 12);
  const double one = count_elements(rank_parameters(run, 0)) - none;
  run.model.mtp_layers = 3;
  fill_layout(run, 12);
  EXPECT_EQ(count_elements(rank_parameters(run, 0)) - none, 3 * one);
  run.model.mtp_repeated = true;
  EXPECT_EQ(count_elements(rank_parameters(run, 0)) - none, one);
}

/// A stage that predicts further tokens embeds them itself, whatever its layers are.
TEST(RankParameters, TheLastHybridStageEmbedsForPrediction) {
  TrainingRun run = gpt_run();
  run.model.kind = ModelClass::hybrid;
  run.parallel.chunks.clear();
  run.parallel.pipeline = 2;
  const auto last_stage = [&](const char* pattern, bool tied) {
    run.model.hybrid_pattern = pattern;
    run.model.tied_embedding = tied;
    return count_elements(rank_parameters(run, 1));
  };
  const double matrix = 50304 * 512;
  const double depth = last_stage("--|--/-", true) - last_stage("--|--", true);  // a tied head shares the copy
  EXPECT_EQ(last_stage("--|--/-", false) - last_stage("--|--", false), depth + matrix);
}

}  // namespace
}  // namespace tidemark::estimate::testing
