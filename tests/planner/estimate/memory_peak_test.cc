// Steady memory and peak of a rank, term by term. Figures said to be measured are of public runs of the same sizes.

#include <gtest/gtest.h>

#include "planner/estimate/static_cuda.h"
#include "tests/planner/estimate/memory_runs.h"

namespace tidemark::estimate::testing {
namespace {

/// 526.6 MiB held and 4456.6 MiB at the peak were measured.
TEST(RankMemoryCuda, UnfusedAttentionOnOneStage) {
  TrainingRun run = gpt_run();
  run.parallel.data = 8;
  run.optimizer.distributed = true;
  run.optimizer.gradient_fusion = false;
  run.platform.cublas_workspace_config = ":4096:8";
  run.batch.micro_batches = 1;
  fill_world(run);
  const RankMemory memory = estimate(run, logged_rank(run));
  EXPECT_NEAR(memory.steady_bytes / kMiB, 526.55, 0.01);
  EXPECT_NEAR(memory.peak_bytes / kMiB, 4451.55, 0.01);
  // Without moments, and before a backward pass brought the second workspace.
  EXPECT_NEAR((memory.peak_bytes - memory.first_peak_bytes) / kMiB, memory.parameters / kMiB + 32, 0.01);
}

TEST(RankMemoryCuda, PipelineKeepsTwoBoundaryTensorsAChunk) {
  TrainingRun run = gpt_run();
  run.parallel.pipeline = 4;
  run.parallel.virtual_pipeline = 3;
  run.parallel.data = 1;
  run.platform.expandable_segments = true;
  fill_layout(run, 1);
  fill_world(run);
  const auto residue = [&](std::int64_t rank) {
    return by_name(estimate(run, rank).steady)["pipeline_residue"] / kMiB;
  };
  EXPECT_DOUBLE_EQ(residue(3), 24);  // 2 * 3 * 1024 * 4 * 512 * 2 bytes
  EXPECT_DOUBLE_EQ(residue(1), 24);
  EXPECT_DOUBLE_EQ(residue(0), 16);  // its first chunk receives nothing
  EXPECT_EQ(by_name(estimate(run, 3).steady).count("split_slack"), 0U);
  run.platform.expandable_segments = false;
  EXPECT_DOUBLE_EQ(by_name(estimate(run, 3).steady)["split_slack"], 3 * kMiB);
}

TEST(RankMemoryCuda, WorkspacesFollowHardwareAndEnvironment) {
  EXPECT_DOUBLE_EQ(cublas_workspace_bytes({.accelerator = Accelerator::h100}), 32 * kMiB);
  EXPECT_DOUBLE_EQ(cublas_workspace_bytes({.accelerator = Accelerator::a100}), 8.125 * kMiB);
  EXPECT_DOUBLE_EQ(cublas_workspace_bytes({.accelerator = Accelerator::gb200}), 8.125 * kMiB);
  Platform platform{.accelerator = Accelerator::h100, .cublas_workspace_config = ":16:8"};
  EXPECT_DOUBLE_EQ(cublas_workspace_bytes(platform), 16 * 8 * 1024);
  platform.cublas_workspace_config = ":4096:2:16:8";
  EXPECT_DOUBLE_EQ(cublas_workspace_bytes(platform), 8.125 * kMiB);
}

TEST(RankMemoryCuda, OnlyTheLastStageComputesTheLoss) {
  TrainingRun run = gpt_run();
  run.parallel.pipeline = 2;
  fill_layout(run, 6);
  fill_world(run);
  const auto first = by_name(estimate(run, 0).at_peak);
  const auto last = by_name(estimate(run, 1).at_peak);
  EXPECT_EQ(first.count("logits"), 0U);
  EXPECT_EQ(last.at("logits"), 4.0 * 1024 * 50304 * 2);
  EXPECT_EQ(last.at("logits_fp32"), 4.0 * 1024 * 50304 * 4);
  EXPECT_EQ(first.at("activations"), 2 * last.at("activations"));  // two micro-batches in flight
  EXPECT_EQ(first.at("embedding_mask"), 2 * 4.0 * 1024 * 512);
}

TEST(RankMemoryCuda, FusedLossesDifferByTheirCopies) {
  TrainingRun run = gpt_run();
  const double logit = 4.0 * 1024 * 50304;
  const double plain = estimate(run).peak_bytes;
  run.loss.fused = true;
  EXPECT_DOUBLE_EQ(estimate(run).peak_bytes - plain, 4 * logit);
  run.loss.fused_by_te = true;
  EXPECT_DOUBLE_EQ(estimate(run).peak_bytes - plain, -4 * logit);
}

TEST(RankMemoryCuda, GradientCopiesAreGoneAtThePeak) {
  TrainingRun run = gpt_run();
  const RankMemory wide = estimate(run);
  run.optimizer.gradient_16bit = true;
  const RankMemory narrow = estimate(run);
  EXPECT_DOUBLE_EQ(narrow.steady_bytes - wide.steady_bytes, 2 * wide.parameters);
  EXPECT_DOUBLE_EQ(narrow.peak_bytes - wide.peak_bytes, -2 * wide.parameters);
}

TEST(RankMemoryCuda, RanksOfAStageNeedNotBeConsecutive) {
  TrainingRun run = gpt_run();
  run.parallel.pipeline = 2;
  run.parallel.data = 3;
  fill_layout(run, 6);
  fill_world(run);
  const auto stages = [&] {
    std::vector<std::int64_t> found;
    for (std::int64_t rank = 0; rank < 6; ++rank) found.push_back(estimate(run, rank).stage);
    return found;
  };
  EXPECT_EQ(stages(), (std::vector<std::int64_t>{0, 0, 0, 1, 1, 1}));
  run.parallel.pipeline_inside_data = true;
  EXPECT_EQ(stages(), (std::vector<std::int64_t>{0, 1, 0, 1, 0, 1}));
}

/// The optimizer step's transient: what is above steady memory where the step decides.
double step_of(const TrainingRun& run, std::int64_t rank) {
  return by_name(estimate(run, rank).at_peak)["optimizer_step"] / kMiB;
}

/// One layer a stage over four stages, two ranks each. Above steady memory 696.0, 1312.0, 160.0, 172.0, ..., 1312.0 and
/// 696.0 MiB were measured.
TEST(RankMemoryAscend, StepNeedsTheLargestPieceOfAParameterInTheShard) {
  TrainingRun run = ascend_run();
  run.model.ffn = 10240;
  run.model.sequence = 1024;
  run.model.vocabulary.padded = 128512;
  run.model.attention.groups = 2;
  run.parallel.pipeline = 4;
  run.parallel.context = 2;
  fill_layout(run, 1);
  fill_world(run);
  const std::vector<double> measured{696, 1312, 160, 172, 160, 172, 1312, 696};
  for (std::int64_t rank = 0; rank < 8; ++rank)
    EXPECT_NEAR(step_of(run, rank), measured[static_cast<std::size_t>(rank)], 0.1) << rank;
}

/// Two stages, tensor 2, data 2: 557.9 MiB above steady memory on the first, which reduces gradients in buckets, 786.5
/// on the second were measured.
TEST(RankMemoryAscend, FirstStageStepsThroughBuckets) {
  TrainingRun run = ascend_run();
  run.model.ffn = 13696;
  run.model.sequence = 1024;
  run.model.vocabulary.padded = 151552;
  run.model.attention.groups = 2;
  run.model.attention.qkv_bias = true;
  run.optimizer.overlap_grad_reduce = true;
  run.parallel.tensor = run.parallel.pipeline = run.parallel.data = 2;
  run.parallel.sequence_parallel = true;
  fill_layout(run, 1);
  fill_world(run);
  EXPECT_NEAR(step_of(run, 0), 558.0, 0.1);
  EXPECT_NEAR(step_of(run, 4), 786.5, 0.1);
}

TEST(RankMemoryAscend, ReusedMasterCopiesAreTransposedWholeOrThroughWorkTensors) {
  TrainingRun run = ascend_run();
  run.parallel.pipeline = 4;
  run.parallel.tensor = 2;
  run.parallel.sequence_parallel = true;
  run.optimizer.reuse_fp32_parameter = true;
  run.model.sequence = 128;
  fill_layout(run, 1);
  fill_world(run);
  EXPECT_DOUBLE_EQ(step_of(run, 2), 172);  // 11008 * 4096 * 4 bytes
  run.parallel.data = 2;
  run.model.ffn = 4 * 11008;
  fill_world(run);
  EXPECT_DOUBLE_EQ(step_of(run, 4), 192);
  run.optimizer.moments_16bit = true;
  EXPECT_DOUBLE_EQ(step_of(run, 4), 3 * 192);
}

TEST(RankMemoryAscend, MomentsAreMissingInTheFirstStepOnly) {
  TrainingRun run = ascend_run();
  run.batch.micro = 8;
  fill_layout(run, 2);
  fill_world(run);
  const RankMemory memory = estimate(run);
  EXPECT_DOUBLE_EQ(by_name(memory.at_peak).at("moments_not_yet"), -8 * memory.parameters);
  EXPECT_DOUBLE_EQ(memory.running_peak_bytes - memory.peak_bytes, 8 * memory.parameters);
  EXPECT_DOUBLE_EQ(memory.first_peak_bytes, memory.peak_bytes);
}

TEST(RankMemoryAscend, LaterStagesKeepTheirLastExchange) {
  TrainingRun run = ascend_run();
  run.parallel.pipeline = 2;
  fill_layout(run, 1);
  fill_world(run);
  EXPECT_EQ(by_name(estimate(run, 0).steady).count("pipeline_residue"), 0U);
  EXPECT_DOUBLE_EQ(by_name(estimate(run, 1).steady).at("pipeline_residue"), 2 * 4096.0 * 4096 * 2);
  EXPECT_DOUBLE_EQ(by_name(estimate(run, 1).steady).at("attention_mask"), 4 * kMiB);
  run.model.attention.mask = AttentionMask::whole;
  EXPECT_DOUBLE_EQ(by_name(estimate(run, 1).steady).at("attention_mask"), 4096.0 * 4096);
}

TEST(RankMemoryAscend, PreferenceLossRunsTwoSequencesForOne) {
  TrainingRun run = ascend_run();
  fill_layout(run, 1);
  fill_world(run);
  run.batch.micro = 8;
  run.batch.micro_batches = 1;
  const double eight = by_name(estimate(run).at_peak)["activations"];
  run.batch.micro = 4;
  run.loss.preference = true;
  const auto terms = by_name(estimate(run).at_peak);
  EXPECT_DOUBLE_EQ(terms.at("activations"), eight);
  EXPECT_DOUBLE_EQ(terms.at("logits"), 24 * 8.0 * 4096 * 32000);
}

TEST(Calibration, CorrectionsAreATermAndTermsStillSum) {
  const TrainingRun run = gpt_run();
  const RankMemory plain = estimate(run);
  const MemoryKnobs knobs{.static_factor = 1.25, .activation_factor = 0.5, .static_offset_bytes = 3 * kMiB};
  const RankMemory corrected = estimate(run, 0, knobs);
  EXPECT_DOUBLE_EQ(corrected.steady_bytes, 1.25 * plain.steady_bytes + 3 * kMiB);
  EXPECT_DOUBLE_EQ(corrected.peak_bytes - corrected.steady_bytes, 0.5 * (plain.peak_bytes - plain.steady_bytes));
  EXPECT_EQ(by_name(corrected.steady).count("calibration"), 1U);
  EXPECT_EQ(by_name(plain.steady).count("calibration"), 0U);
}

std::string refusal(const TrainingRun& run, std::int64_t rank = 0) {
  const auto result = estimate_rank(run, rank);
  return result.ok() ? "" : result.error().message;
}

TEST(Refusal, SaysWhatIsNotModelled) {
  TrainingRun run = gpt_run();
  EXPECT_EQ(refusal(run, 1), "rank 1 is outside a world of 1");
  EXPECT_EQ(refusal(run, -1), "rank -1 is outside a world of 1");
  run.model.kind = ModelClass::multimodal;
  EXPECT_EQ(refusal(run), "memory of a multimodal model is not modelled");
  run = gpt_run();
  run.model.hidden = 0;
  EXPECT_EQ(refusal(run), "hidden-size is 0, not from 1 to 1048576");
  run = gpt_run();
  run.parallel.pipeline = 2;
  EXPECT_EQ(refusal(run), "the pipeline layout has 1 stages, not 2");
  run = gpt_run();
  run.model.kind = ModelClass::hybrid;
  run.model.hybrid_pattern = "M*x";
  EXPECT_EQ(refusal(run), "hybrid-layer-pattern has 'x', not one of M * - E");
}

double bytes_of(const std::vector<Term>& terms, std::string_view name) {
  double bytes = 0;
  for (const Term& term : terms)
    if (term.name == name) bytes += term.bytes;
  return bytes;
}

/// 16-bit logits become their softmax in place: a third of the bytes.
TEST(RankMemoryAscend, LogitsInPlaceHaveNoFp32Copy) {
  TrainingRun run = ascend_run();
  run.model.vocabulary.padded = 1 << 17;  // the loss decides the peak
  run.batch.micro = 8;
  run.platform.resumed = true;
  fill_layout(run, 1);
  fill_world(run);
  const double logits = bytes_of(estimate(run).at_peak, "logits");
  run.loss.in_16bit_logits = true;
  EXPECT_GT(logits, 0);
  EXPECT_DOUBLE_EQ(bytes_of(estimate(run).at_peak, "logits"), logits / 3);
}

TEST(RankMemoryAscend, AMaskOnTheHostTakesNoDeviceMemory) {
  TrainingRun run = ascend_run();
  run.model.attention.mask = AttentionMask::whole;
  fill_layout(run, 1);
  fill_world(run);
  const double with = estimate(run).steady_bytes;
  run.model.attention.mask_on_host = true;
  EXPECT_DOUBLE_EQ(with - estimate(run).steady_bytes, 4096.0 * 4096);
}

TEST(RankMemoryAscend, CappedLogitsKeepTheirTangent) {
  TrainingRun run = ascend_run();
  run.model.vocabulary.padded = 1 << 17;  // the loss decides the peak
  run.batch.micro = 8;
  fill_layout(run, 1);
  fill_world(run);
  const double logits = bytes_of(estimate(run).at_peak, "logits");
  run.loss.softcapped = true;
  EXPECT_DOUBLE_EQ(bytes_of(estimate(run).at_peak, "logits"), logits / 6 * 8);
}

/// Of two samples each: one mask of the step before, and those of the micro-batches in flight beside it.
TEST(RankMemoryAscend, MicroBatchesHaveMasksOfTheirOwn) {
  constexpr double kMask = 2 * 4096.0 * 4096;
  TrainingRun run = ascend_run();
  run.parallel.pipeline = 4;
  run.batch.micro = 2;
  fill_layout(run, 1);
  fill_world(run);
  for (const AttentionMask mask : {AttentionMask::made, AttentionMask::loaded}) {
    run.model.attention.mask = mask;
    EXPECT_DOUBLE_EQ(bytes_of(estimate(run, 0).steady, "attention_mask"), kMask);
    EXPECT_DOUBLE_EQ(bytes_of(estimate(run, 0).at_running_peak, "waiting_masks"), 3 * kMask);
    EXPECT_DOUBLE_EQ(bytes_of(estimate(run, 3).at_running_peak, "waiting_masks"), 0);
  }
  run.model.attention.ring = 2;  // rows of half the queries, and the compressed mask
  EXPECT_DOUBLE_EQ(bytes_of(estimate(run, 0).steady, "attention_mask"), kMask / 2 + 4 * kMiB);
  run.model.attention.mask = AttentionMask::whole;
  EXPECT_DOUBLE_EQ(bytes_of(estimate(run, 0).steady, "attention_mask"), kMask / 2);  // one for all samples
  EXPECT_DOUBLE_EQ(bytes_of(estimate(run, 0).at_running_peak, "waiting_masks"), 0);
  run.model.attention.use_flash = false;
  EXPECT_DOUBLE_EQ(bytes_of(estimate(run, 0).steady, "attention_mask"), kMask);
}

/// mindspeed_llm/training/utils.py, get_tune_attention_mask: of long samples, making the mask takes more than a layer.
TEST(RankMemoryAscend, MakingALongMaskDecidesThePeak) {
  constexpr double kSquare = 65536.0 * 65536;
  TrainingRun run = ascend_run();
  run.model.sequence = run.model.max_positions = 65536;
  run.parallel.context = 8;
  run.model.attention.mask = AttentionMask::made;
  fill_layout(run, 1);
  fill_world(run);
  const auto making = [&run] { return bytes_of(estimate(run).at_peak, "mask_making"); };
  EXPECT_DOUBLE_EQ(making(), 8 * kSquare);
  EXPECT_DOUBLE_EQ(bytes_of(estimate(run).at_peak, "activations"), 0);  // before the first layer
  run.batch.micro = 2;
  EXPECT_DOUBLE_EQ(making(), 12 * kSquare);
  run.model.attention.reset_mask = true;
  EXPECT_DOUBLE_EQ(making(), 16 * kSquare);
  run.model.attention.padded_left = true;
  EXPECT_DOUBLE_EQ(making(), 4 * kSquare);
  run.model.attention.mask = AttentionMask::compressed;
  EXPECT_DOUBLE_EQ(making(), 0);
}

/// The unfused core's buffer of scores is kept.
TEST(RankMemoryAscend, UnfusedScoresHaveABuffer) {
  TrainingRun run = ascend_run();
  fill_layout(run, 1);
  fill_world(run);
  EXPECT_DOUBLE_EQ(bytes_of(estimate(run).steady, "score_buffer"), 0);
  run.model.attention.use_flash = false;
  EXPECT_DOUBLE_EQ(bytes_of(estimate(run).steady, "score_buffer"), 2 * 32.0 * 4096 * 4096);
}

/// The whole state at once peaks in the step; a sixteenth of it does not.
TEST(RankMemoryAscend, SwappedStateComesBackInParts) {
  TrainingRun run = ascend_run();
  run.model.sequence = 16;
  run.optimizer.on_host = true;
  fill_layout(run, 1);
  fill_world(run);
  run.optimizer.swap_times = 1;
  const RankMemory at_once = estimate(run);
  EXPECT_DOUBLE_EQ(bytes_of(at_once.at_peak, "optimizer_step"), 12 * at_once.parameters);
  run.optimizer.swap_times = 1000;
  EXPECT_LT(estimate(run).peak_bytes, at_once.peak_bytes);
}

TEST(RankMemoryCuda, LegacyGroupedProductsHaveNoWorkspacesOfTransformerEngine) {
  TrainingRun run = gpt_run();
  run.model.moe = {.experts = 8, .top_k = 2, .width = 2048, .grouped_gemm = true};
  run.model.moe.is_moe.assign(12, true);
  fill_world(run);
  const double with = bytes_of(estimate(run).steady, "te_grouped_gemm_workspaces");
  run.model.moe.legacy_grouped_gemm = true;
  EXPECT_DOUBLE_EQ(with, 4 * 4 * kMiB);
  EXPECT_EQ(bytes_of(estimate(run).steady, "te_grouped_gemm_workspaces"), 0);
}

}  // namespace
}  // namespace tidemark::estimate::testing
