#pragma once
// The members of a job, a machine and the figures of a plan, each named once: the writer and the reader of plan.json
// both walk these tables. `v(name, member)` for plain members, `v.word(name, member, words)` for enums, `v.object(name,
// member)` for nested values; `..._unless_default` for what is written only where it differs from the default of its
// type, the first word of enums. Private to formats.

#include <array>
#include <concepts>
#include <string_view>
#include <type_traits>

#include "core/machine.h"
#include "planner/graph_build/job_spec.h"
#include "planner/planner.h"

namespace tidemark::formats {

template <class T, class Value>
concept Maybe = std::same_as<std::remove_const_t<T>, Value>;  ///< Value, or const Value

/// By Precision.
inline constexpr std::array<std::string_view, kPrecisionCount> kPeakWords = {"bf16_flops_per_s",  "fp16_flops_per_s",
                                                                             "tf32_flops_per_s",  "fp8_flops_per_s",
                                                                             "mxfp8_flops_per_s", "nvfp4_flops_per_s"};
inline constexpr std::array<std::string_view, 2> kAttentionWords = {"gqa", "mla"};
inline constexpr std::array<std::string_view, 3> kActivationWords = {"swiglu", "gelu", "geglu"};
inline constexpr std::array<std::string_view, 2> kNormWords = {"pre", "sandwich"};
inline constexpr std::array<std::string_view, 2> kProbabilityWords = {"at_unpermute", "in_activation"};
inline constexpr std::array<std::string_view, 2> kCapacityWords = {"expert", "device"};
inline constexpr std::array<std::string_view, 6> kLayerWords = {"dense",     "moe",          "mamba_dense",
                                                                "mamba_moe", "linear_dense", "linear_moe"};
inline constexpr std::array<std::string_view, 3> kContextWords = {"all_gather", "ring", "ulysses"};
inline constexpr std::array<std::string_view, 2> kComputeWords = {"bf16", "fp8"};
inline constexpr std::array<std::string_view, 3> kSlotWords = {"layer", "noop", "mtp"};
inline constexpr std::array<std::string_view, 7> kLaneWords = {"compute", "intra_comm", "inter_comm", "send",
                                                               "receive", "d2h",        "h2d"};
inline constexpr std::array<std::string_view, 7> kPhaseWords = {
    "forward", "backward", "weight_gradient", "receive", "send", "gradient_reduction", "optimizer"};
inline constexpr std::array<std::string_view, 6> kRoleWords = {"parameter",  "gradient",  "optimizer_state",
                                                               "activation", "temporary", "communication"};
inline constexpr std::array<std::string_view, 4> kTaskWords = {"op", "recompute", "swap_out", "swap_in"};
inline constexpr std::array<std::string_view, 3> kActionWords = {"keep", "recompute", "swap"};
inline constexpr std::array<std::string_view, 2> kSpaceWords = {"device", "host"};
inline constexpr std::array<std::string_view, 3> kArenaWords = {"mapped", "plain", "pinned"};

template <class V>
void walk(V& v, Maybe<graph_build::AttentionSpec> auto& a) {
  v.word("kind", a.kind, kAttentionWords);
  v("heads", a.heads);
  v("kv_heads", a.kv_heads);
  v("head_dim", a.head_dim);
  v("q_lora_rank", a.q_lora_rank);
  v("kv_lora_rank", a.kv_lora_rank);
  v("qk_rope_dim", a.qk_rope_dim);
  v("qk_nope_dim", a.qk_nope_dim);
  v("v_head_dim", a.v_head_dim);
  v("v_own_storage", a.v_own_storage);
  v("v_padded", a.v_padded);
  v.unless_default("qk_norm", a.qk_norm, false);
  v.unless_default("qkv_bias", a.qkv_bias, false);
  v.unless_default("window", a.window, std::int64_t{0});
  v.unless_default("global_every", a.global_every, std::int64_t{0});
}

template <class V>
void walk(V& v, Maybe<graph_build::MoeSpec> auto& m) {
  v("experts", m.experts);
  v("top_k", m.top_k);
  v("width", m.width);
  v("shared_width", m.shared_width);
  v("router_fp32", m.router_fp32);
  v.unless_default("shared_gate", m.shared_gate, false);
  v.word("probabilities", m.probabilities, kProbabilityWords);
  v.unless_default("capacity_factor", m.capacity_factor, 0.0);
  v.word_unless_default("capacity_level", m.capacity_level, kCapacityWords);
  v.unless_default("pad_to_capacity", m.pad_to_capacity, false);
}

template <class V>
void walk(V& v, Maybe<graph_build::MambaSpec> auto& m) {
  v("heads", m.heads);
  v("head_dim", m.head_dim);
  v("state_dim", m.state_dim);
  v("groups", m.groups);
  v("convolution", m.convolution);
}

template <class V>
void walk(V& v, Maybe<graph_build::LinearAttentionSpec> auto& l) {
  v("key_heads", l.key_heads);
  v("key_dim", l.key_dim);
  v("value_heads", l.value_heads);
  v("value_dim", l.value_dim);
  v("convolution", l.convolution);
}

template <class V>
void walk(V& v, Maybe<graph_build::ModelSpec> auto& m) {
  v("name", m.name);
  v("hidden", m.hidden);
  v("vocabulary", m.vocabulary);
  v("sequence", m.sequence);
  v.layers("layers", m.layers);
  v("mtp_layers", m.mtp_layers);
  v.object("attention", m.attention);
  v.word("activation", m.activation, kActivationWords);
  v("dense_width", m.dense_width);
  v.object("moe", m.moe);
  v.word("norm", m.norm, kNormWords);
  v("tied_embedding", m.tied_embedding);
  v.object_unless_default("mamba", m.mamba);
  v.object_unless_default("linear_attention", m.linear_attention);
}

template <class V>
void walk(V& v, Maybe<graph_build::ParallelSpec> auto& p) {
  v("tensor", p.tensor);
  v("sequence_parallel", p.sequence_parallel);
  v("pipeline", p.pipeline);
  v("virtual_pipeline", p.virtual_pipeline);
  v("context", p.context);
  v.word_unless_default("context_kind", p.context_kind, kContextWords);
  v("expert", p.expert);
  v("tensor_extends_expert", p.tensor_extends_expert);
  v("data", p.data);
  v("micro_batch", p.micro_batch);
  v("global_batch", p.global_batch);
  v("overlap_forward_backward", p.overlap_forward_backward);
  v("hierarchical_expert_communication", p.hierarchical_expert_communication);
  v.unless_default("expert_exchange_parts", p.expert_exchange_parts, 1);
  v.slots("slots", p.slots);
  v.unless_default("head_stage", p.head_stage, -1);
  v.unless_default("auto_placement", p.auto_placement, false);
  v("parameter_bytes", p.parameter_bytes);
  v("gradient_bytes", p.gradient_bytes);
  v("optimizer_bytes", p.optimizer_bytes);
  v("distributed_optimizer", p.distributed_optimizer);
  v.unless_default("sharded_gradients", p.sharded_gradients, false);
  v.unless_default("sharded_parameters", p.sharded_parameters, false);
  v.word_unless_default("compute", p.compute, kComputeWords);
  v("reuse_fp32_parameter", p.reuse_fp32_parameter);
  v("communicators", p.communicators);
  v.later("framework_bytes", p.framework_bytes);
}

template <class V>
void walk(V& v, Maybe<graph_build::ExpertLoadSpec> auto& e) {
  v("mean", e.mean);
  v("coefficient_of_variation", e.coefficient_of_variation);
  v("layer_correlation", e.layer_correlation);
  v("quantile", e.quantile);
  v("seed", e.seed);
  v.unless_default("popularity_share", e.popularity_share, 0.0);
  v.unless_default("persistence", e.persistence, 1.0);
}

template <class V>
void walk(V& v, Maybe<graph_build::JobSpec> auto& j) {
  v.object("model", j.model);
  v.object("parallel", j.parallel);
  v.object("expert_load", j.expert_load);
  v("device", j.device);
}

template <class V>
void walk(V& v, Maybe<Link> auto& l) {
  v("bytes_per_s", l.bytes_per_s);
  v("latency_ns", l.latency_ns);
}

template <class V>
void walk(V& v, Maybe<DeviceSheet> auto& s) {
  v(kPeakWords.front(), s.flops_per_s[0]);  // what has no peak for bf16 is no device
  for (std::size_t i = 1; i < kPrecisionCount; ++i) v.unless_default(kPeakWords[i], s.flops_per_s[i], 0.0);
  v("memory_bytes_per_s", s.memory_bytes_per_s);
  v("cores", s.cores);
  v.tiles("tiles", s.tiles);
  v("intra_bytes_per_s", s.intra_bytes_per_s);
  v("inter_bytes_per_s", s.inter_bytes_per_s);
  v("host_bytes_per_s", s.host_bytes_per_s);
  v("devices_per_node", s.devices_per_node);
  v("is_hopper_or_later", s.is_hopper_or_later);
}

template <class V>
void walk(V& v, Maybe<FittedRates> auto& r) {
  v("matmul_share", r.matmul);
  v("tile_start", r.tile_start);
  v("memory_share", r.memory);
  v("launch_s", r.launch_s);
  v("intra_link_share", r.intra_link);
  v("inter_link_share", r.inter_link);
  v("hop_s", r.hop_s);
  v("attention_share", r.attention);
  v("grouped_matmul_share", r.grouped_matmul);
  v("fp8_share", r.fp8);
}

template <class V>
void walk(V& v, Maybe<Machine> auto& m) {
  v("name", m.name);
  v("visible_bytes", m.visible_bytes);
  v("context_bytes", m.context_bytes);
  v("workspace_bytes", m.workspace_bytes);
  v("collective_buffer_bytes", m.collective_buffer_bytes);
  v("alignment_bytes", m.alignment_bytes);
  v.object("sheet", m.chip.sheet);
  v.object("rates", m.chip.rates);
  v.terms("measured_terms", m.chip.measured);
  v("dense_band_percent", m.chip.bands.dense_percent);
  v("experts_band_percent", m.chip.bands.experts_percent);
  v("copy_launch_ns", m.copy_launch_ns);
  v("softmax_statistics_width", m.softmax_statistics_width);
  v.object("d2h", m.d2h);
  v.object("h2d", m.h2d);
  v("host_bytes_per_device", m.host_bytes_per_device);
  v("host_bytes_per_node", m.host_bytes_per_node);
}

template <class V>
void walk(V& v, Maybe<plan::RankFigures> auto& f) {
  v("rank", f.rank);
  v("load", f.load);
  v("peak_bytes", f.peak_bytes);
  v("budget_bytes", f.budget_bytes);
  v("static_bytes", f.static_bytes);
  v("activation_peak_bytes", f.activation_peak_bytes);
  v("reserve_bytes", f.reserve_bytes);
  v("offloaded_bytes", f.offloaded_bytes);
  v("offload_ns", f.offload_ns);
  v("host_bytes", f.host_bytes);
  v("swapped_bytes_per_step", f.swapped_bytes_per_step);
  v("recompute_ns", f.recompute_ns);
  v.unless_default("hidden_recompute_ns", f.hidden_recompute_ns, std::int64_t{0});
  v("exposed_communication_ns", f.exposed_communication_ns);
  v("exposed_copy_ns", f.exposed_copy_ns);
  v("copy_overhead_ns", f.copy_overhead_ns);
  v("added_ns", f.added_ns);
  v.unless_default("paid_ns", f.paid_ns, std::int64_t{0});
  v("lower_bound_ns", f.lower_bound_ns);
  v("lower_bound_percent", f.lower_bound_percent);
  v("worst_load_f", f.worst_load_f);
  v.unless_default("load_quantile", f.load_quantile, 0.0);
  v.unless_default("load_held_ns", f.load_held_ns, std::int64_t{0});
  v.unless_default("load_short_ns", f.load_short_ns, std::int64_t{0});
  v("fits", f.fits);
  v("peak_op", f.peak_op);
  v("reason", f.reason);
  v("smallest_budget_bytes", f.smallest_budget_bytes);
  v.later("smallest_host_budget_bytes", f.smallest_host_budget_bytes);
  v.later("misfit_is_proven", f.misfit_is_proven);
  v.later("least_live_bytes", f.least_live_bytes);
  v.later("least_live_op", f.least_live_op);
  v.later("rule", f.rule);
}

template <class V>
void walk(V& v, Maybe<plan::PlanAttempt> auto& a) {
  v("target_bytes", a.target_bytes);
  v("height_bytes", a.height_bytes);
  v("load_bytes", a.load_bytes);
  v("packer", a.packer);
}

template <class V>
void walk(V& v, Maybe<plan::StepFigures> auto& s) {
  v("step_ns", s.step_ns);
  v("keep_all_step_ns", s.keep_all_step_ns);
  v("bubble_percent", s.bubble_percent);
  v("exposed_communication_percent", s.exposed_communication_percent);
  v("exposed_copy_percent", s.exposed_copy_percent);
  v("recompute_percent", s.recompute_percent);
  v("mfu_percent", s.mfu_percent);
  v("mfu_causal_percent", s.mfu_causal_percent);
  v("tokens_per_s", s.tokens_per_s);
  v.unless_default("fullest_load", s.fullest_load, 1.0);
}

template <class V>
void walk(V& v, Maybe<graph_build::ParameterCount> auto& p) {
  v("total", p.total);
  v("total_both", p.total_both);
  v("total_with_mtp", p.total_with_mtp);
  v("active", p.active);
}

template <class V>
void walk(V& v, Maybe<Arena> auto& a) {
  v.word("space", a.space, kSpaceWords);
  v.word("kind", a.kind, kArenaWords);
  v("capacity_bytes", a.capacity_bytes);
  v("alignment_bytes", a.alignment_bytes);
  v("height_bytes", a.height_bytes);
  v("dynamic_bytes", a.dynamic_bytes);
}

}  // namespace tidemark::formats
