// The parts of a step against closed forms and published counts.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/step_time/ends_time.h"
#include "planner/step_time/held_elements.h"
#include "planner/step_time/host_time.h"
#include "planner/step_time/layer_time.h"
#include "planner/step_time/pipeline_time.h"
#include "planner/step_time/recompute_time.h"
#include "planner/step_time/sharded_time.h"
#include "planner/step_time/step_end.h"
#include "tests/planner/cost/timed_devices.h"
#include "tests/planner/step_time/timed_cases.h"

namespace tidemark::step_time {
namespace {

StepSetting setting_of(const Case& c, const Chip& device) {
  return {.run = c.run, .device = device, .software = c.software, .rank = rank_shape(c.run)};
}

double elements_of_one(const TimedModel& model) {
  TimedRun run;
  run.model = model;
  const HeldElements held = held_elements(run);
  return held.dense() + held.experts();
}

// Published counts of parameters, less the norms' (which are not priced): Hugging Face's safetensors totals.
TEST(HeldElements, AreThePublishedCountsWithoutNorms) {
  const TimedModel llama_2_7b{.layers = 32,
                              .hidden = 4096,
                              .ffn = 11008,
                              .heads = 32,
                              .kv_heads = 32,
                              .head_dim = 128,
                              .vocabulary = 32000,
                              .mla = {}};
  EXPECT_EQ(elements_of_one(llama_2_7b), 6'738'415'616 - 65 * 4096);
  const TimedModel mixtral_8x7b{.layers = 32,
                                .hidden = 4096,
                                .heads = 32,
                                .kv_heads = 8,
                                .head_dim = 128,
                                .vocabulary = 32000,
                                .experts = 8,
                                .top_k = 2,
                                .expert_ffn = 14336,
                                .moe_layers = 32,
                                .mla = {}};
  EXPECT_EQ(elements_of_one(mixtral_8x7b), 46'702'792'704 - 65 * 4096);
  const TimedModel deepseek_v2_lite{.layers = 27,
                                    .hidden = 2048,
                                    .ffn = 10944,
                                    .heads = 16,
                                    .kv_heads = 16,
                                    .head_dim = 192,
                                    .vocabulary = 102400,
                                    .experts = 64,
                                    .top_k = 6,
                                    .expert_ffn = 1408,
                                    .shared_ffn = 2816,
                                    .moe_layers = 26,
                                    .is_mla = true,
                                    .mla = {.kv_lora = 512, .qk_nope = 128, .qk_rope = 64, .v = 128}};
  EXPECT_NEAR(elements_of_one(deepseek_v2_lite), 15'706'484'224 - 27 * (2 * 2048 + 512) - 2048, 1);
}

TEST(HeldElements, AreDividedByTheGroupsThatSplitThem) {
  Case c = plain_case();
  make_moe(c);
  const HeldElements whole = held_elements(c.run);
  c.run.tensor = 4;
  c.run.expert = 8;
  c.run.expert_tensor = 2;
  c.run.pipeline = 2;
  const HeldElements held = held_elements(c.run);
  EXPECT_DOUBLE_EQ(held.experts(), whole.experts() / 32);
  EXPECT_DOUBLE_EQ(held.table, whole.table / 4);
  EXPECT_EQ(held.tables, 1) << "first and last stage hold one each";
  const double router = 15.0 / 16 * 4096 * 64;  // every rank holds it whole
  EXPECT_DOUBLE_EQ(held.dense_layer - router, (whole.dense_layer - router) / 4);
}

TEST(Pipeline, OfEvenStagesIsTheTextbookFillAndDrain) {
  Case c = plain_case();
  c.run.pipeline = 4;
  c.run.data = 1;
  c.run.global_batch = 12;
  Chip device = cost::round_device();
  device.rates.hop_s = 0;
  device.sheet.intra_bytes_per_s = 1e30;
  for (const double chunks : {1, 2, 4}) {
    c.run.virtual_pipeline = static_cast<std::int64_t>(chunks);
    const PipelineSeconds got = pipeline_s(setting_of(c, device), {.layers_s = 2});
    EXPECT_NEAR(got.seconds, 2 * (12 + 3 / chunks), 1e-9);
    EXPECT_NEAR(got.bubble_share, (3 / chunks) / (12 + 3 / chunks), 1e-9);
  }
}

TEST(Pipeline, WaitsForItsFullestStage) {
  Case c = plain_case();
  c.run.pipeline = 4;
  c.run.data = 1;
  c.run.global_batch = 12;
  Chip device = cost::round_device();
  device.rates.hop_s = 0;
  device.sheet.intra_bytes_per_s = 1e30;
  const StageSeconds stage{.layers_s = 2, .embedding_s = 0.25, .head_s = 1};
  EXPECT_NEAR(pipeline_s(setting_of(c, device), stage).seconds, 12 * 3 + 2 * 2 + 2.25, 1e-9);
  c.run.is_even = true;
  EXPECT_NEAR(pipeline_s(setting_of(c, device), stage).seconds, 15 * (8 + 1.25) / 4, 1e-9);
  c.run.pipeline = 1;
  EXPECT_NEAR(pipeline_s(setting_of(c, device), stage).seconds, 12 * 3.25, 1e-9);
}

TEST(Pipeline, PaysForSendsThatAreNotHidden) {
  Case c = plain_case();
  c.run.pipeline = 2;
  c.run.data = 1;
  c.run.virtual_pipeline = 2;
  c.run.global_batch = 10;
  const Chip device = cost::round_device();
  const double hop_s = 2 * (20e-6 + 4096 * 4096 * 2 / 400e9);
  const PipelineSeconds hidden = pipeline_s(setting_of(c, device), {.layers_s = 2});
  EXPECT_NEAR(hidden.seconds, 2 * 10 + 1 + hop_s, 1e-12);
  c.software.send_hidden = 0;
  EXPECT_NEAR(pipeline_s(setting_of(c, device), {.layers_s = 2}).seconds, hidden.seconds + 10 * 2 * hop_s, 1e-9);
  c.run.tensor = 8;  // now the next stage is on another node, and each rank sends its eighth there at 20 GB/s
  const double far_s = 2 * (20e-6 + 4096 * 4096 * 2 / 8 / 20e9);
  EXPECT_NEAR(pipeline_s(setting_of(c, device), {.layers_s = 2}).seconds, 2 * 10 + 1 + 21 * far_s, 1e-9);
}

TEST(Sharded, ShowsTwoFifthsOfWhatRunsBesideLongCompute) {
  Case c = plain_case();
  const Chip device = cost::round_device();
  const HeldElements held = held_elements(c.run);
  EXPECT_EQ(sharded_s(setting_of(c, device), held, 1), 0) << "held whole";
  c.run.sharded = 8;
  const double ring_bytes = (2 * 2 + 4) * (held.layer() * held.layers + 2 * held.table);
  const double moved_s = 17 * 3 * 3 * 20e-6 + ring_bytes * 7 / 8 / 200e9;
  EXPECT_NEAR(sharded_s(setting_of(c, device), held, 1e4), 0.4 * moved_s, 1e-4 * moved_s);
  EXPECT_NEAR(sharded_s(setting_of(c, device), held, 1e-9), moved_s, 1e-6 * moved_s) << "nothing to hide behind";
  c.run.gathers_once = true;
  const double once_s = 17 * 2 * 3 * 20e-6 + ring_bytes * 6 / 8 * 7 / 8 / 200e9;
  EXPECT_NEAR(sharded_s(setting_of(c, device), held, 1e-9), once_s, 1e-6 * once_s);
}

TEST(StepEnd, ExchangesGradientsAndWeightsOfItsReplicas) {
  Case c = plain_case();
  c.software.exchange_hidden = 0;
  const Chip device = cost::round_device();
  const HeldElements held = held_elements(c.run);
  const double elements = held.dense();
  const double latency_s = 3 * 20e-6;
  const double whole_s = 2 * latency_s + 6 * elements * 7 / 8 / 200e9 + latency_s * 6 * elements / 500e6;
  const StepEnd shown = step_end(setting_of(c, device), held, 1);
  EXPECT_NEAR(shown.exchange_s, whole_s, 1e-12);
  EXPECT_NEAR(shown.optimizer_s, 30 * elements / 8 / 1e12, 1e-12);
  c.software.exchange_hidden = 0.8;
  EXPECT_NEAR(step_end(setting_of(c, device), held, 1e3).exchange_s, 0.2 * whole_s, 1e-12);
  EXPECT_NEAR(step_end(setting_of(c, device), held, 0).exchange_s, whole_s, 1e-12) << "no compute, nothing hidden";
  c.software.weight_bytes = 0;
  EXPECT_NEAR(step_end(setting_of(c, device), held, 1).optimizer_s, 30 * elements / 1e12, 1e-12) << "all update all";
}

TEST(StepEnd, OfOneReplicaExchangesNothing) {
  Case c = plain_case();
  c.run.data = 1;
  const Chip device = cost::round_device();
  EXPECT_EQ(step_end(setting_of(c, device), held_elements(c.run), 1).exchange_s, 0);
}

TEST(StepEnd, ShardsStateOverNoMoreThanItsSpan) {
  Case c = plain_case();
  const Chip device = cost::round_device();
  const HeldElements held = held_elements(c.run);
  const double over_all_s = step_end(setting_of(c, device), held, 1).optimizer_s;
  c.run.optimizer_span = 2;
  EXPECT_NEAR(step_end(setting_of(c, device), held, 1).optimizer_s, 4 * over_all_s, 1e-12);
  c.run.optimizer_span = 64;
  EXPECT_NEAR(step_end(setting_of(c, device), held, 1).optimizer_s, over_all_s, 1e-12);
}

TEST(Recompute, RunsTheNamedModulesAgain) {
  Case c = plain_case();
  make_moe(c);
  const Chip device = hopper();
  const LayerCost dense = layer_cost(setting_of(c, device), LayerKind::dense);
  const LayerCost moe = layer_cost(setting_of(c, device), LayerKind::moe);
  const auto again = [&](const LayerCost& layer, const std::vector<std::string>& names) {
    c.run.recomputed.modules.clear();
    for (const std::string& name : names) c.run.recomputed.modules.push_back({.name = name});
    return recompute_cost(setting_of(c, device), layer);
  };
  const PassCost core = again(dense, {"core_attn"});
  EXPECT_EQ(core.device_s(), dense.modules.core_attention.attention_s);
  EXPECT_EQ(core.launches, 2 + 12) << "two of the kernel, twelve of its wrapper";
  EXPECT_EQ(again(dense, {"mlp"}).device_s(), dense.modules.feed_forward.device_s());
  EXPECT_EQ(again(moe, {"moe"}).device_s(), moe.modules.moe.device_s());
  EXPECT_EQ(again(moe, {"mlp"}).launches, 0) << "a MoE layer has no such module";
  EXPECT_EQ(again(dense, {"layernorm"}).launches, 2 + 2 * 12) << "two norms";
  EXPECT_EQ(again(dense, {"of no framework"}).launches, 0);
  EXPECT_NEAR(again(moe, {"core_attn", "moe", "shared_experts"}).device_s(),
              core.device_s() + moe.modules.moe.device_s() + moe.modules.shared_experts.device_s(), 1e-12);
}

TEST(Recompute, OfAShareOfTheLayersIsThatShareOfTheModule) {
  Case c = plain_case();
  const Chip device = hopper();
  const LayerCost layer = layer_cost(setting_of(c, device), LayerKind::dense);
  const auto again_s = [&] { return recompute_cost(setting_of(c, device), layer).device_s(); };
  c.run.recomputed.modules = {{"mlp", 0.25}};
  EXPECT_DOUBLE_EQ(again_s(), 0.25 * layer.modules.feed_forward.device_s());
  c.run.recomputed.layers = 0.5;  // of the other half
  EXPECT_DOUBLE_EQ(again_s(), 0.5 * layer.passes.forward.device_s() + 0.125 * layer.modules.feed_forward.device_s());
  c.run.recomputed = {.modules = {{"activation"}}};
  EXPECT_DOUBLE_EQ(again_s(), layer.modules.activation.vector_s);
  EXPECT_GT(again_s(), 0);
  make_mla(c);
  const LayerCost latent = layer_cost(setting_of(c, device), LayerKind::dense);
  c.run.recomputed = {.modules = {{"mla_attention"}}};
  EXPECT_DOUBLE_EQ(recompute_cost(setting_of(c, device), latent).device_s(), latent.modules.attention.device_s());
}

TEST(Recompute, CountsAModuleOnceAndNoneThatTheModelLacks) {
  Case c = plain_case();
  const Chip device = hopper();
  const auto again_s = [&](LayerKind kind, std::vector<RecomputedModule> modules) {
    c.run.recomputed.modules = std::move(modules);
    const PassCost again = recompute_cost(setting_of(c, device), layer_cost(setting_of(c, device), kind));
    return again.device_s() + again.launches;  // either would show
  };
  for (const char* lacking : {"mla_up_proj", "mla_attention", "shared_experts", "moe"})
    EXPECT_EQ(again_s(LayerKind::dense, {{lacking}}), 0) << lacking;
  EXPECT_EQ(again_s(LayerKind::dense, {{"mlp"}, {"mlp"}}), again_s(LayerKind::dense, {{"mlp"}}));
  make_moe(c);
  EXPECT_EQ(again_s(LayerKind::moe, {{"moe_act"}, {"moe"}}), again_s(LayerKind::moe, {{"moe"}}));
}

TEST(Recompute, OfExpertsRowsSendsThemAgainOnce) {
  Case c = plain_case();
  c.run.expert = 8;
  make_moe(c);
  const Chip device = hopper();
  const LayerCost layer = layer_cost(setting_of(c, device), LayerKind::moe);
  c.run.recomputed.modules = {{"zero_memory_level0"}};
  const PassCost rows = recompute_cost(setting_of(c, device), layer);
  EXPECT_DOUBLE_EQ(rows.expert_s, layer.modules.moe.expert_s / 2);
  EXPECT_DOUBLE_EQ(rows.vector_s, layer.modules.activation.vector_s + layer.modules.shared_experts.vector_s);
  EXPECT_EQ(rows.matmul_s, 0);
  c.run.recomputed.modules = {{"zero_memory_level1"}};
  const PassCost product = recompute_cost(setting_of(c, device), layer);
  EXPECT_DOUBLE_EQ(product.matmul_s, (layer.modules.moe.matmul_s + layer.modules.shared_experts.matmul_s) * 2 / 3)
      << "two of three matrices where gated";
}

TEST(HostTime, OfCopiesIsWhatPassesDoNotHide) {
  Case c = plain_case();
  const Chip device = hopper();
  const StepSetting plain = setting_of(c, device);
  const LayerCost layer = layer_cost(plain, LayerKind::dense);
  const double forward_s = layer.passes.forward.device_s(), backward_s = layer.passes.backward.device_s();
  const double link = 60e9;  // bytes a second
  const auto shown_s = [&](double bytes) {
    c.run.host.dense_bytes = bytes;
    return copy_cost(setting_of(c, device), layer).copy_s;
  };
  EXPECT_EQ(shown_s(0.9 * forward_s * link), 0);
  EXPECT_NEAR(shown_s((forward_s + 1e-3) * link), 1e-3, 1e-12);
  EXPECT_NEAR(shown_s((backward_s + 1e-3) * link), 2e-3 + backward_s - forward_s, 1e-12);
}

TEST(HostTime, OfStateIsTwelveBytesUpAndDownOrThirtyOnTheHost) {
  Case c = plain_case();
  const Chip device = hopper();
  const double elements = 1e9, link = 60e9;
  EXPECT_EQ(host_state_s(setting_of(c, device), elements), 0);
  c.run.host.is_state_swapped = true;
  EXPECT_DOUBLE_EQ(host_state_s(setting_of(c, device), elements), 12 * elements / link);
  c.run.host = {.updated_share = 0.5};
  EXPECT_DOUBLE_EQ(host_state_s(setting_of(c, device), elements), 15 * elements / link);
}

TEST(Layer, BackwardOfPlainProductsIsAboutTwiceTheForward) {
  const Case c = plain_case();
  const Chip device = hopper();
  const Passes passes = layer_cost(setting_of(c, device), LayerKind::dense).passes;
  EXPECT_NEAR(passes.backward.matmul_s / passes.forward.matmul_s, 2, 0.1);
  EXPECT_DOUBLE_EQ(passes.backward.vector_s, 2 * passes.forward.vector_s);
  EXPECT_DOUBLE_EQ(passes.backward.launches, 1.6 * passes.forward.launches);
  EXPECT_EQ(passes.forward.launches, 14);
}

TEST(Layer, TensorParallelSplitsProductsAndAddsCollectives) {
  Case c = plain_case();
  const Chip device = hopper();
  const PassCost one = layer_cost(setting_of(c, device), LayerKind::dense).passes.forward;
  c.run.tensor = 4;
  const PassCost four = layer_cost(setting_of(c, device), LayerKind::dense).passes.forward;
  EXPECT_EQ(one.tensor_s, 0);
  EXPECT_LT(four.matmul_s, 0.35 * one.matmul_s);
  EXPECT_GT(four.matmul_s, 0.25 * one.matmul_s);
  EXPECT_DOUBLE_EQ(four.attention_s, one.attention_s / 4);
  EXPECT_DOUBLE_EQ(four.tensor_s, 2 * tensor_all_reduce_s(setting_of(c, device)));
  c.run.is_sequence_parallel = true;
  EXPECT_LT(layer_cost(setting_of(c, device), LayerKind::dense).passes.forward.vector_s, four.vector_s);
}

TEST(Ends, HeadGrowsWithTheVocabularyAndSlowsInTf32) {
  Case c = plain_case();
  const Chip device = cost::round_device();
  const Passes before = head_passes(setting_of(c, device));
  EXPECT_DOUBLE_EQ(before.forward.vector_s + before.backward.vector_s, 16.0 * 4096 * 32000 / 1e12) << "the loss";
  c.software.has_tf32_head = true;
  EXPECT_DOUBLE_EQ(head_passes(setting_of(c, device)).both().matmul_s, 4 * before.both().matmul_s) << "a fourth peak";
  c.run.tensor = 2;
  EXPECT_LT(head_passes(setting_of(c, device)).both().matmul_s, before.both().matmul_s) << "not if it is split";
}

}  // namespace
}  // namespace tidemark::step_time
