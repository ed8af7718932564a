// What layers keep for backward, and how many micro-batches of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/estimate/in_flight.h"
#include "planner/estimate/recompute_rule.h"
#include "planner/estimate/saved_ascend.h"
#include "planner/estimate/saved_cuda.h"
#include "tests/planner/estimate/memory_runs.h"

namespace tidemark::estimate::testing {
namespace {

double kept_by(const TrainingRun& run) {
  return layer_cost_cuda(run, local_sizes(run, {}), false, true).kept;
}

/// arXiv 2205.05198: s b h (10 + 24/t) + 5 a s^2 b / t without sequence parallelism, s b h 34/t + 5 a s^2 b / t with
/// it.
TEST(SavedLayer, FollowsThePublishedForm) {
  TrainingRun run = gpt_run();
  const double s = 1024;
  const double b = 4;
  const double h = 512;
  const double a = 8;
  for (const std::int64_t t : {1, 2, 4, 8}) {
    run.parallel.tensor = t;
    const auto ranks = static_cast<double>(t);
    run.parallel.sequence_parallel = false;
    EXPECT_DOUBLE_EQ(kept_by(run), s * b * h * (10 + 24 / ranks) + 5 * a * s * s * b / ranks) << t;
    run.parallel.sequence_parallel = true;
    EXPECT_DOUBLE_EQ(kept_by(run), s * b * h * 34 / ranks + 5 * a * s * s * b / ranks) << t;
    run.recompute.granularity = Recompute::Granularity::selective;
    EXPECT_DOUBLE_EQ(kept_by(run), s * b * h * 34 / ranks) << t;
    run.recompute.granularity = Recompute::Granularity::none;
  }
}

TEST(SavedLayer, FusedCoresKeepStatistics) {
  TrainingRun run = gpt_run();
  run.model.attention.backend = AttentionBackend::fused;
  const double fused = kept_by(run);
  EXPECT_DOUBLE_EQ(fused, 1024.0 * 4 * 512 * 34 + 4.0 * 8 * 1024 * 4);
  run.model.attention.backend = AttentionBackend::flash;
  EXPECT_DOUBLE_EQ(kept_by(run), fused + 1024.0 * 4 * 512 * 2);
}

TEST(SavedLayer, ContextParallelismDividesTokensAndScoreRows) {
  TrainingRun run = gpt_run();
  const double one = kept_by(run);
  run.parallel.context = 4;
  EXPECT_DOUBLE_EQ(kept_by(run), one / 4);
}

double offloaded(const TrainingRun& run) {
  const LocalSizes sizes = local_sizes(run, {});
  return layer_cost_cuda(run, sizes, false, true).kept - layer_cost_cuda(run, sizes, false, false).kept;
}

TEST(SavedLayer, OffloadTakesWhatNobodyElseKeeps) {
  TrainingRun run = gpt_run();
  const double wide = 1024.0 * 4 * 512 * 2;  // one tensor over tokens and hidden width
  run.offload.modules = {"qkv_linear"};
  EXPECT_DOUBLE_EQ(offloaded(run), 2 * wide);  // the norm is part of the product: both save
  run.offload.modules = {"attn_norm", "mlp_norm"};
  EXPECT_DOUBLE_EQ(offloaded(run), 0);  // no modules of their own
  run.model.transformer_impl_local = true;
  EXPECT_DOUBLE_EQ(offloaded(run), 2 * wide);
  run = gpt_run();
  run.model.attention.backend = AttentionBackend::fused;
  run.offload.modules = {"attn_proj"};
  EXPECT_DOUBLE_EQ(offloaded(run), 0);  // the kernel keeps its output too
  run.offload.modules = {"attn_proj", "core_attn"};
  EXPECT_DOUBLE_EQ(offloaded(run), 4 * wide);
  run.offload.share = 0.5;
  EXPECT_DOUBLE_EQ(offloaded(run), 2 * wide);
  run.batch.micro = 1;
  EXPECT_DOUBLE_EQ(offloaded(run), 0.5 * 3.0 * 1024 * 512 * 2);  // below a million elements: the output stays
}

TEST(SavedLayer, AscendCopiesWhatRotaryEmbeddingTurns) {
  TrainingRun run = ascend_run();
  const LocalSizes sizes = local_sizes(run, {});
  const double s = 4096;
  const double h = 4096;
  const double turned = saved_attention_ascend(run, sizes).total();
  EXPECT_DOUBLE_EQ(turned, 2 * s * h * (2 + 3 + 2 + 1) + 64 * 32 * s);
  run.model.positions = PositionEmbedding::none;
  EXPECT_DOUBLE_EQ(turned - saved_attention_ascend(run, sizes).total(), 2 * 2 * s * h);
}

TEST(SavedLayer, AscendOptionsActOnTheFirstLayers) {
  TrainingRun run = ascend_run();
  const LocalSizes sizes = local_sizes(run, {});
  const auto kept = [&](const LayerPlace& place) { return saved_layer_ascend(run, sizes, false, place).total(); };
  const double all = kept({});
  run.recompute.activation_function = true;
  run.recompute.activation_function_layers = 2;
  EXPECT_DOUBLE_EQ(all - kept({.in_chunk = 1}), 2.0 * 4096 * 11008);
  EXPECT_DOUBLE_EQ(kept({.in_chunk = 2}), all);
  run.recompute.layers_per_rank = true;  // the first layer of either chunk, then the second
  EXPECT_DOUBLE_EQ(all - kept({.chunk = 1, .chunks = 2}), 2.0 * 4096 * 11008);
  EXPECT_DOUBLE_EQ(kept({.chunks = 2, .in_chunk = 1}), all);
  run.recompute.layers = 1;  // whole recomputation has the first
  EXPECT_DOUBLE_EQ(kept({.chunks = 2}), all);
  run.recompute.norms = true;
  EXPECT_DOUBLE_EQ(all - kept({.chunks = 2, .in_chunk = 2}), 2 * 2.0 * 4096 * 4096);
}

TEST(SavedLayer, ZeroMemoryDropsByLevel) {
  TrainingRun run = ascend_run();
  run.model.moe = {.experts = 8, .top_k = 2, .width = 1024, .shared_width = 512};
  const LocalSizes sizes = local_sizes(run, {});
  const auto gone = [&](std::int64_t layer) {
    const double all = saved_experts_ascend(run, sizes).total();
    return all - saved_layer_ascend(run, sizes, true, {.in_chunk = layer}).mlp.total();
  };
  const double rows = 2 * 4096 * 2.0;  // bytes of one column of all rows
  const double shared = 4096 * 2.0;
  run.model.moe.zero_memory = ZeroMemory::level0;
  EXPECT_DOUBLE_EQ(gone(0), rows * (4096 + 1024) + shared * 512);
  run.model.moe.zero_memory = ZeroMemory::level1;
  EXPECT_DOUBLE_EQ(gone(0), rows * (4096 + 3 * 1024) + shared * 3 * 512);
  run.model.moe.zero_memory_layers = 1;
  EXPECT_DOUBLE_EQ(gone(0), rows * (4096 + 3 * 1024) + shared * 3 * 512);
  EXPECT_DOUBLE_EQ(gone(1), rows * (4096 + 1024) + shared * 512);
}

TEST(SavedLayer, LatentAttentionIsRebuiltInPartOrWhole) {
  TrainingRun run = ascend_run();
  run.model.attention = {.heads = 32,
                         .groups = 32,
                         .head_dim = 128,
                         .multi_latent = true,
                         .q_lora_rank = 1024,
                         .kv_lora_rank = 512,
                         .use_flash = true,
                         .v_without_padding = true};
  const LocalSizes sizes = local_sizes(run, {});
  const auto attention = [&](const LayerPlace& place = {}) {
    return saved_layer_ascend(run, sizes, false, place).attention;
  };
  const double all = attention().total();
  run.recompute.mla_up_projection = true;
  const double heads = 4096 * 32 * 2.0;
  EXPECT_DOUBLE_EQ(all - attention().total(), heads * (192 + 192 + 128 + 64) + 4096 * 2.0 * (1024 + 512));
  run.parallel.schedule = Schedule::dualpipev;
  EXPECT_DOUBLE_EQ(attention({.chunk = 1, .chunks = 2}).total(), all);
  run.recompute = {.mla_attention = true};
  EXPECT_DOUBLE_EQ(attention().total(), 2 * 4096.0 * 4096 * 2);
  run.recompute = {};
  run.offload.attention_output = true;
  EXPECT_DOUBLE_EQ(all - attention().total(), heads * 128);
}

TEST(SavedLayer, SwappedAttentionMayComeWithRecomputedFeedForwardParts) {
  TrainingRun run = ascend_run();
  run.offload.attention = true;
  const LocalSizes sizes = local_sizes(run, {});
  EXPECT_GT(saved_layer_ascend(run, sizes, false, {}).mlp.projected, 0);
  run.recompute.layers = 1;
  EXPECT_EQ(saved_layer_ascend(run, sizes, false, {}).total(), 3 * 4096.0 * 4096 * 2);
  EXPECT_GT(saved_layer_ascend(run, sizes, false, {.in_chunk = 1}).mlp.projected, 0);
}

TEST(Recompute, UniformKeepsOneInputAGroup) {
  TrainingRun run = gpt_run();
  run.recompute = {.granularity = Recompute::Granularity::full, .method = Recompute::Method::uniform, .layers = 3};
  const std::vector<LayerCost> layers(7, {.kept = 100, .rebuilt = 100, .backward = 10});
  ActivationSum sum(run, 8, 1);
  sum.add_chunk(layers, 2);
  EXPECT_DOUBLE_EQ(sum.result().kept, 2 * 3 * 8);
  EXPECT_DOUBLE_EQ(sum.result().working, 3 * 100 - 8 + 10);
}

TEST(Recompute, BlockTakesTheFirstLayersOfAChunkOrOfARank) {
  TrainingRun run = gpt_run();
  run.recompute = {.granularity = Recompute::Granularity::full, .method = Recompute::Method::block, .layers = 3};
  const std::vector<LayerCost> layers(2, {.kept = 100, .rebuilt = 100, .backward = 10});
  ActivationSum each(run, 8, 2);
  ActivationSum over_rank(run, 8, 2);
  each.add_chunk(layers, 1);
  each.add_chunk(layers, 1);
  EXPECT_DOUBLE_EQ(each.result().kept, 4 * 8);
  run.recompute.layers_per_rank = true;
  over_rank.add_chunk(layers, 1);
  over_rank.add_chunk(layers, 1);
  EXPECT_DOUBLE_EQ(over_rank.result().kept, 3 * 8 + 100);
}

/// Runs a pipeline rank's order of passes, one forward or backward at a time, and records the most it keeps.
class OrderOfPasses {
 public:
  OrderOfPasses(std::int64_t group, std::int64_t chunks, std::int64_t micro_batches)
      : group_(group), chunks_(chunks), total_(micro_batches * chunks), kept_(static_cast<std::size_t>(chunks)) {}

  std::vector<std::int64_t> most(std::int64_t warm_up) {
    std::int64_t backward = 0;
    for (std::int64_t forward = 0; forward < total_; ++forward) {
      ++kept_[chunk_of(forward)];
      record();
      if (forward >= warm_up) --kept_[static_cast<std::size_t>(chunks_) - 1 - chunk_of(backward++)];
    }
    return most_;
  }

 private:
  /// Groups of micro-batches go through all chunks.
  [[nodiscard]] std::size_t chunk_of(std::int64_t pass) const {
    return static_cast<std::size_t>(pass / group_ % chunks_);
  }
  void record() {
    std::int64_t sum = 0;
    for (const std::int64_t kept : kept_) sum += kept;
    if (sum <= most_sum_) return;
    most_sum_ = sum;
    most_ = kept_;
  }

  std::int64_t group_;
  std::int64_t chunks_;
  std::int64_t total_;
  std::int64_t most_sum_ = 0;
  std::vector<std::int64_t> kept_;
  std::vector<std::int64_t> most_;
};

TEST(InFlight, EqualsTheMostOfTheOrderItself) {
  std::mt19937 random(7);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 300; ++i) {
    TrainingRun run = gpt_run();
    run.parallel.pipeline = draw(1, 8);
    const std::int64_t chunks = run.parallel.pipeline == 1 ? 1 : draw(1, 4);
    run.parallel.micro_batch_group = draw(0, 1) * (run.parallel.pipeline + draw(0, 3));
    const std::int64_t group =
        run.parallel.micro_batch_group > 0 ? run.parallel.micro_batch_group : run.parallel.pipeline;
    run.batch.micro_batches = chunks == 1 ? draw(1, 20) : draw(1, 5) * group;
    const std::int64_t stage = draw(0, run.parallel.pipeline - 1);
    const std::int64_t later = run.parallel.pipeline - stage - 1;
    const std::int64_t warm_up = chunks == 1 ? later : 2 * later + (chunks - 1) * group;
    OrderOfPasses order(group, chunks, run.batch.micro_batches);
    EXPECT_EQ(in_flight(run, stage, static_cast<std::size_t>(chunks)), order.most(warm_up))
        << run.parallel.pipeline << " " << chunks << " " << run.batch.micro_batches << " " << stage;
  }
}

TEST(InFlight, LastOfFourStagesWithThreeChunksKeepsNine) {
  TrainingRun run = gpt_run();
  run.parallel.pipeline = 4;
  EXPECT_EQ(in_flight(run, 3, 3), (std::vector<std::int64_t>{4, 4, 1}));
}

TEST(InFlight, FoldedPipelineKeepsTheSameOnEveryRank) {
  TrainingRun run = gpt_run();
  run.parallel.pipeline = 4;
  run.parallel.schedule = Schedule::dualpipev;
  run.batch.micro_batches = 16;
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    const std::vector<std::int64_t> kept = in_flight(run, stage, 2);
    EXPECT_EQ(kept[0] + kept[1], 2 * 4 + 1);
  }
}

TEST(SavedLayer, AGateOfSeveralKernelsKeepsItsActivatedHalf) {
  TrainingRun run = ascend_run();
  fill_layout(run, 2);
  const LocalSizes sizes = local_sizes(run, {});
  const double half = sizes.tokens * sizes.ffn * 2;
  const double fused_ascend = saved_mlp_ascend(run, sizes).total();
  const double fused_cuda = saved_mlp_cuda(run, sizes).total();
  run.model.unfused_gate = true;
  EXPECT_DOUBLE_EQ(saved_mlp_ascend(run, sizes).total() - fused_ascend, half);
  EXPECT_DOUBLE_EQ(saved_mlp_cuda(run, sizes).total() - fused_cuda, half);
}

/// Half a byte, and an 8-bit scale for 16 elements.
TEST(SavedLayer, FourBitInputsTakeMoreThanHalfOfEightBits) {
  TrainingRun run = gpt_run();
  const LocalSizes sizes = local_sizes(run, {});
  run.quantization.used = true;
  const double eight = saved_mlp_cuda(run, sizes).activated;
  run.quantization.four_bit = true;
  EXPECT_DOUBLE_EQ(saved_mlp_cuda(run, sizes).activated, eight * 9 / 16);
}

TEST(SavedLayer, CachedKeysOfOtherContextRanksStay) {
  TrainingRun run = ascend_run();
  const LocalSizes sizes = local_sizes(run, {});
  const double own = saved_attention_ascend(run, sizes).qkv;
  run.model.attention.cached_keys = 3;
  EXPECT_DOUBLE_EQ(saved_attention_ascend(run, sizes).qkv, 2 * own);  // query, key and value are as wide here
}

/// mindspeed_llm/tasks/models/transformer/multi_latent_attention.py: 192 wide queries and 128 wide values.
TEST(SavedLayer, LatentHeadsArePaddedForTheFusedKernel) {
  TrainingRun run = ascend_run();
  run.model.attention = {.heads = 32, .groups = 32, .head_dim = 128, .multi_latent = true, .kv_lora_rank = 512};
  const double heads = 4096 * 32 * 2.0;
  const auto widths = [&] {
    const SavedAttention saved = saved_attention_ascend(run, local_sizes(run, {}));
    return std::pair(saved.qkv / heads, saved.context / heads);
  };
  EXPECT_EQ(widths(), std::pair(2 * 192 + 128.0, 128.0));  // the unfused core wants nothing
  run.model.attention.use_flash = true;
  EXPECT_EQ(widths(), std::pair(3 * 256.0, 256 + 128.0));
  run.model.attention.padded_multiple = 64;
  EXPECT_EQ(widths(), std::pair(3 * 192.0, 192 + 128.0));
  run.model.attention.padded_multiple = 128;
  run.model.attention.heads_first = true;
  EXPECT_EQ(widths(), std::pair(3 * 192.0, 192 + 128.0));
  run.model.attention.v_without_padding = true;
  EXPECT_EQ(widths(), std::pair(2 * 192 + 128.0, 128.0));
  run.model.attention = {.heads = 32, .multi_latent = true, .kv_lora_rank = 512, .v_head_dim = 192, .use_flash = true};
  EXPECT_EQ(widths(), std::pair(3 * 192.0, 192.0));  // as wide already
}

/// Multiplying by cosine and sine keeps those alone; the fused kernel keeps what it turns.
TEST(SavedLayer, UnfusedRotationKeepsNothing) {
  TrainingRun run = ascend_run();
  EXPECT_GT(saved_attention_ascend(run, local_sizes(run, {})).rope, 0);
  run.model.unfused_rope = true;
  EXPECT_EQ(saved_attention_ascend(run, local_sizes(run, {})).rope, 0);
  run.model.attention = {.heads = 32, .multi_latent = true, .kv_lora_rank = 512, .use_flash = true};
  EXPECT_EQ(saved_attention_ascend(run, local_sizes(run, {})).rope, 0);
}

TEST(SavedLayer, ScaledPositionsStayForTheKernel) {
  TrainingRun run = ascend_run();
  const double plain = saved_attention_ascend(run, local_sizes(run, {})).core;
  run.model.positions = PositionEmbedding::alibi;
  EXPECT_DOUBLE_EQ(saved_attention_ascend(run, local_sizes(run, {})).core - plain, 2 * 32.0 * 4096 * 4096);
}

/// Ulysses with fewer groups than ranks, or the unfused core: keys and values for every head.
TEST(SavedLayer, RepeatedKeysAreAsWideAsQueries) {
  TrainingRun run = ascend_run();
  run.model.attention.groups = 8;
  const double token = 4096.0 * 2;
  EXPECT_DOUBLE_EQ(saved_attention_ascend(run, local_sizes(run, {})).qkv, 4096 * token * (1 + 2 * 8.0 / 32));
  run.model.attention.repeats_keys = true;
  EXPECT_DOUBLE_EQ(saved_attention_ascend(run, local_sizes(run, {})).qkv, 3 * 4096 * token);
}

/// megatron/legacy/model/rms_norm.py: fp32 input, normalised product and output, where the fused kernel keeps two.
TEST(SavedLayer, UnfusedNormsKeepCopies) {
  TrainingRun run = ascend_run();
  run.model.attention.qk_norm = true;
  const double boundary = 2 * 4096.0 * 4096;
  const double fused = saved_layer_ascend(run, local_sizes(run, {}), false, {}).total();
  run.model.unfused_norm = true;
  const SavedLayer kept = saved_layer_ascend(run, local_sizes(run, {}), false, {});
  EXPECT_DOUBLE_EQ(kept.total() - fused, 2 * (2 + 2) * boundary);  // two norms, and those of queries and keys
  run.recompute.norms = true;
  EXPECT_DOUBLE_EQ(kept.total() - saved_layer_ascend(run, local_sizes(run, {}), false, {}).total(), 2 * 3 * boundary);
}

TEST(SavedLayer, CappedScoresKeepTheirTangent) {
  TrainingRun run = ascend_run();
  run.model.attention.use_flash = false;
  const LocalSizes sizes = local_sizes(run, {});
  const double plain = saved_attention_ascend(run, sizes).core;
  run.model.attention.softcapped = true;
  EXPECT_DOUBLE_EQ(saved_attention_ascend(run, sizes).core - plain, 2 * 32.0 * 4096 * 4096);
}

}  // namespace
}  // namespace tidemark::estimate::testing
