#include "planner/step_time/layer_time.h"

#include <algorithm>

#include "planner/cost/collective_time.h"
#include "planner/cost/launch_counts.h"
#include "planner/cost/matmul_time.h"
#include "planner/cost/memory_time.h"
#include "planner/cost/rounded_max.h"
#include "planner/step_time/attention_work.h"
#include "planner/step_time/feed_forward_work.h"

namespace tidemark::step_time {
namespace {

constexpr double kElementBytes = 2;
/// Launches of a dense layer that its modules count themselves.
constexpr double kCountedLaunches = cost::kAttentionLaunches + cost::kFeedForwardLaunches;
/// Share of attention beside which keys and values may go round, and backward beside forward: defaults, not fitted.
constexpr double kContextBesideAttention = 0.8, kAttentionBackward = 2.5;

/// Norms, residuals and dropout over the hidden width; rotary embedding and transposes over that of the projections.
void add_row_passes(Passes& passes, const StepSetting& setting) {
  const RankShape& rank = setting.rank;
  const Software& software = setting.software;
  const double hidden_passes = software.hidden_passes + (setting.run.model.is_gated ? 0 : software.ungated_passes);
  const double elements =
      hidden_passes * rank.split_tokens * rank.hidden + software.qkv_passes * rank.tokens * rank.qkv_width;
  passes.add_vector(setting.run.fused_vector_share * cost::memory_s(kElementBytes * elements, setting.device));
}

/// Inputs and gradients are cast to the narrow precision, by rows and by columns.
void add_casts(Passes& passes, const StepSetting& setting, LayerKind kind) {
  if (!cost::is_narrow(setting.run.precision, setting.device)) return;
  constexpr double kCastBytes = 6;
  const RankShape& rank = setting.rank;
  const double rows = kind == LayerKind::moe ? rank.routed_rows / rank.expert_tensor : rank.tokens;
  const double width = kind == LayerKind::moe ? rank.expert_ffn : rank.ffn;
  const double inputs = rank.tokens * (2 * rank.hidden + rank.heads * rank.v_dim) + rows * width;
  const double gradients = rank.tokens * (2 * rank.hidden + rank.qkv_width) + rank.gates * rows * width;
  passes.forward.vector_s += cost::memory_s(kCastBytes * inputs, setting.device);
  passes.backward.vector_s += cost::memory_s(kCastBytes * gradients, setting.device);
}

/// Of a dense layer attention and feed-forward end in one each pass; what a MoE layer's experts need is counted there.
void add_tensor_collectives(Passes& passes, const StepSetting& setting, LayerKind kind) {
  if (setting.run.tensor <= 1) return;
  const double collectives = kind == LayerKind::moe ? 1 : 2;
  const cost::GroupSpan span = cost::group_span(setting.run.tensor, 1, setting.device);
  const PassCost each{.tensor_s = collectives * tensor_all_reduce_s(setting),
                      .latency_s = collectives * cost::collective_latency_s(span, setting.device)};
  passes.forward += each;
  passes.backward += each;
}

/// Keys and values around a ring beside attention, and their gradients with them backward: what attention does not
/// hide.
void add_context_ring(Passes& passes, const StepSetting& setting, double core_s) {
  if (setting.run.context <= 1) return;
  const RankShape& rank = setting.rank;
  const double width =
      setting.run.model.is_mla ? rank.heads * (rank.qk_dim + rank.v_dim) : 2 * rank.kv_heads * rank.v_dim;
  const cost::GroupSpan span = cost::group_span(setting.run.context, setting.run.tensor, setting.device);
  const double sent_s = cost::ring_send_s((rank.context - 1) * rank.tokens * width * kElementBytes, span,
                                          {.share = setting.run.network_share}, setting.device);
  const double hops_s = rank.context * setting.device.rates.hop_s;
  const double hidden_s = kContextBesideAttention * core_s;
  passes.forward.tensor_s += std::max(0.0, sent_s - hidden_s) + hops_s;
  passes.backward.tensor_s += std::max(0.0, 2 * sent_s - kAttentionBackward * hidden_s) + hops_s;
}

void add_feed_forward(LayerCost& layer, const StepSetting& setting) {
  if (layer.kind == LayerKind::dense) {
    const Passes dense = dense_passes(setting);
    layer.passes += dense;
    layer.modules.feed_forward = dense.forward;
    layer.modules.activation = dense_activation(setting);
    return;
  }
  const MoePasses moe = moe_passes(setting);
  layer.passes += moe.routed;
  layer.passes += moe.shared;
  layer.modules.moe = moe.routed.forward;
  layer.modules.shared_experts = moe.shared.forward;
  layer.modules.activation = moe.activation;
}

/// After all modules, since the backward's are a factor of the forward's.
void add_launches(Passes& passes, const StepSetting& setting) {
  double& forward = passes.forward.launches;
  forward += setting.software.layer_launches - kCountedLaunches;
  if (setting.run.model.is_mla) forward += cost::kMlaLaunches;
  if (setting.run.tensor > 1) forward += setting.software.collective_launches;
  passes.backward.launches = cost::kBackwardLaunches * forward;
}

/// Where no lane runs ahead of the other beyond a pass, both wait for what their maximum, rounded, has above the
/// longer.
void meet_in_passes(Passes& passes, const StepSetting& setting) {
  if (setting.software.pass_corner <= 0) return;
  for (PassCost* pass : {&passes.forward, &passes.backward}) {
    const double device_s = pass->device_s();
    const double host_s = pass->launches * setting.device.rates.launch_s + pass->latency_s;
    const double wait_s =
        cost::rounded_max(device_s, host_s, setting.software.pass_corner) - std::max(device_s, host_s);
    pass->wait_s += wait_s;
    pass->latency_s += wait_s;
  }
}

/// Of what a norm reads and writes; run again it makes the input of the products after it.
PassCost norms_again(const StepSetting& setting) {
  const double elements = 4 * setting.rank.split_tokens * setting.rank.hidden;
  return {.vector_s = cost::memory_s(kElementBytes * elements, setting.device), .launches = 2};
}

}  // namespace

double tensor_all_reduce_s(const StepSetting& setting) {
  constexpr double kAllReducePasses = 2;
  const cost::GroupSpan span = cost::group_span(setting.run.tensor, 1, setting.device);
  const double bytes = setting.rank.tokens * setting.rank.hidden * kElementBytes;
  return (1 - setting.run.tensor_hidden) *
         cost::ring_s(bytes, kAllReducePasses, span, {.share = setting.run.network_share}, setting.device);
}

LayerCost layer_cost(const StepSetting& setting, LayerKind kind) {
  LayerCost layer{.kind = kind, .passes = projection_passes(setting), .modules = {}};
  const Passes core = core_passes(setting);
  layer.passes += core;
  layer.modules.core_attention = core.forward;
  layer.modules.up_projection = up_projection_again(setting);
  layer.modules.attention = layer.passes.forward;
  layer.modules.attention.matmul_s -= output_projection_s(setting);
  layer.modules.norms = norms_again(setting);
  add_feed_forward(layer, setting);
  add_row_passes(layer.passes, setting);
  add_casts(layer.passes, setting, kind);
  add_launches(layer.passes, setting);
  add_tensor_collectives(layer.passes, setting, kind);
  add_context_ring(layer.passes, setting, core.forward.attention_s);
  meet_in_passes(layer.passes, setting);
  return layer;
}

}  // namespace tidemark::step_time
