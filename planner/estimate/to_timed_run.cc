#include "planner/estimate/to_timed_run.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/estimate/attention_backend.h"
#include "planner/estimate/host_kept.h"
#include "planner/estimate/local_sizes.h"
#include "planner/estimate/recompute_rule.h"
#include "planner/step_time/overlap_shares.h"
#include "planner/step_time/software.h"

namespace tidemark::estimate {
namespace {

using step_time::Software;
using step_time::TimedModel;
using step_time::TimedRun;

std::int64_t at_least_one(std::int64_t count) {
  return std::max<std::int64_t>(1, count);
}

// ---- model --------------------------------------------------------------------------------------------------------

struct LayerCounts {
  std::int64_t all = 0, moe = 0;
};

/// A layer of a hybrid pattern is half of one: attention, or a feed-forward part.
LayerCounts layer_counts(const TrainingRun& run) {
  const Model& model = run.model;
  if (model.kind != ModelClass::hybrid)
    return {.all = at_least_one(model.layers + model.encoder_layers),
            .moe = model.moe.experts > 0 ? std::ranges::count(model.moe.is_moe, true) : 0};
  const auto letters = [&](std::string_view of) {
    return std::ranges::count_if(model.hybrid_pattern, [&](char c) { return of.find(c) != std::string_view::npos; });
  };
  return {.all = at_least_one((letters("M*-E") + 1) / 2), .moe = letters("E") / 2};
}

void set_experts(TimedModel& timed, const Model& model) {
  const Experts& moe = model.moe;
  if (timed.moe_layers == 0) return;
  timed.experts = moe.experts;
  timed.top_k = at_least_one(moe.top_k);
  timed.expert_ffn = moe.latent > 0 ? at_least_one(moe.width * moe.latent / model.hidden) : moe.width;
  timed.shared_ffn = moe.shared_width;
}

TimedModel model_of(const TrainingRun& run) {
  const Model& model = run.model;
  const Attention& attention = model.attention;
  const LayerCounts layers = layer_counts(run);
  TimedModel timed{.layers = layers.all,
                   .hidden = model.hidden,
                   .ffn = model.ffn,
                   .heads = attention.heads,
                   .kv_heads = attention.groups > 0 ? attention.groups : attention.heads,
                   .head_dim = attention.head_dim,
                   .vocabulary = padded_vocabulary(run),
                   .is_gated = model.gated,
                   .is_tied = model.tied_embedding,
                   .is_causal = model.kind != ModelClass::bert,
                   .window = attention.window,
                   .alternates_window = attention.skips_windows,
                   .moe_layers = layers.moe,
                   .mtp_layers = model.mtp_layers,
                   .is_mla = attention.multi_latent,
                   .mla = {.q_lora = attention.q_lora_rank,
                           .kv_lora = attention.kv_lora_rank,
                           .qk_nope = attention.qk_head_dim,
                           .qk_rope = attention.qk_rope_dim,
                           .v = attention.v_head_dim}};
  set_experts(timed, model);
  return timed;
}

// ---- layout -------------------------------------------------------------------------------------------------------

/// A placement that gives the last stage fewer layers makes room for the loss there.
bool is_even(const TrainingRun& run) {
  const auto layers_of = [](const std::vector<Chunk>& chunks) {
    std::size_t layers = 0;
    for (const Chunk& chunk : chunks) layers += chunk.layers.size() + static_cast<std::size_t>(chunk.mtp);
    return layers;
  };
  const std::vector<std::vector<Chunk>>& ranks = run.parallel.chunks;
  if (ranks.size() < 2) return false;
  return std::ranges::any_of(ranks, [&](const auto& chunks) { return layers_of(chunks) > layers_of(ranks.back()); });
}

void set_layout(TimedRun& timed, const TrainingRun& run) {
  const Parallel& parallel = run.parallel;
  timed.tensor = parallel.tensor;
  timed.pipeline = parallel.pipeline;
  timed.virtual_pipeline = at_least_one(parallel.virtual_pipeline);
  timed.is_folded = parallel.schedule == Schedule::dualpipev;
  timed.context = parallel.context;
  timed.data = parallel.data;
  if (timed.model.experts > 0) {
    timed.expert = at_least_one(parallel.expert);
    timed.expert_tensor = at_least_one(parallel.expert_tensor);
  }
  timed.is_sequence_parallel = shards_sequence(run);
  timed.is_even = is_even(run);
}

bool is_fully_sharded(const TrainingRun& run) {
  return run.optimizer.fsdp || run.platform.framework == Framework::torchtitan;
}

void set_sharding(TimedRun& timed, const TrainingRun& run) {
  const std::int64_t replicas = run.parallel.data * run.parallel.context;
  if (is_fully_sharded(run)) timed.sharded = replicas;
  timed.gathers_once = run.fsdp2.keeps_gathered;
  timed.optimizer_span = at_least_one(replicas / at_least_one(run.parallel.optimizer_instances));
  timed.reduced_bytes = run.optimizer.gradient_16bit ? 2 : 4;
  if (run.platform.framework == Framework::torchtitan)
    timed.reduced_bytes = static_cast<double>(run.fsdp2.reduce_bytes);
}

void set_overlap(TimedRun& timed, const TrainingRun& run, const Software& software) {
  timed.tensor_hidden = run.fused_coc ? step_time::kFusedTensorHidden : software.tensor_hidden;
  const Parallel& parallel = run.parallel;
  if (parallel.overlap_forward_backward || parallel.overlap_expert_communication)
    timed.expert_hidden = step_time::kExpertHidden;
  timed.sends_once_a_node = run.model.moe.dispatcher == Dispatcher::flex;
}

void set_batch(TimedRun& timed, const TrainingRun& run) {
  const std::int64_t sequences = run.loss.preference ? 2 : 1;  // chosen and rejected go together
  timed.micro_batch = sequences * run.batch.micro;
  timed.global_batch = timed.micro_batch * run.parallel.data * at_least_one(run.batch.micro_batches);
  timed.sequence = run.model.sequence;
}

tidemark::Precision precision_of(const TrainingRun& run, const Chip& chip) {
  using tidemark::Precision;
  const auto supported = [&chip](Precision precision) { return chip.sheet.peak(precision) > 0; };
  if (run.quantization.used && run.quantization.four_bit && supported(Precision::nvfp4)) return Precision::nvfp4;
  if (run.quantization.used && supported(Precision::fp8)) return Precision::fp8;
  if (run.precision == estimate::Precision::fp32 && supported(Precision::tf32)) return Precision::tf32;
  return Precision::bf16;
}

// ---- what runs again ----------------------------------------------------------------------------------------------

/// Share of `of` layers that an option for so many of each chunk, or of each rank, acts on.
double share_of_layers(const TrainingRun& run, std::int64_t layers, double of) {
  const std::int64_t chunks = run.recompute.layers_per_rank ? 1 : at_least_one(run.parallel.virtual_pipeline);
  return of > 0 ? std::min(1.0, static_cast<double>(layers * chunks * run.parallel.pipeline) / of) : 0;
}

double whole_share(const TrainingRun& run, double layers) {
  if (run.platform.framework == Framework::torchtitan) {
    if (run.fsdp2.checkpoint == Fsdp2::Checkpoint::full) return 1;
    return run.fsdp2.checkpoint == Fsdp2::Checkpoint::nth_layer ? 1.0 / static_cast<double>(at_least_one(run.fsdp2.nth))
                                                                : 0;
  }
  if (!recomputes_layers(run)) return 0;
  if (run.recompute.method != Recompute::Method::block) return 1;
  return share_of_layers(run, run.recompute.layers, layers);
}

void add_module(step_time::Recomputed& recomputed, std::string_view name, double share = 1) {
  if (share > 0) recomputed.modules.push_back({.name = std::string(name), .share = share});
}

/// moe-zero-memory-num-layers counts those of level 1 on a rank; none given: all.
void add_zero_memory(step_time::Recomputed& recomputed, const TrainingRun& run, double layers) {
  const Experts& moe = run.model.moe;
  if (moe.zero_memory == ZeroMemory::off) return;
  const std::int64_t counted = moe.zero_memory_layers.value_or(0);
  double first = moe.zero_memory == ZeroMemory::level1 ? 1 : 0;
  if (first > 0 && counted > 0) first = std::min(1.0, static_cast<double>(counted * run.parallel.pipeline) / layers);
  add_module(recomputed, "zero_memory_level1", first);
  add_module(recomputed, "zero_memory_level0", 1 - first);
}

/// Options of MindSpeed that rebuild single modules; a number of layers counts those that are not run again whole.
void add_memory_options(step_time::Recomputed& recomputed, const TrainingRun& run, double layers) {
  const Recompute& options = run.recompute;
  const double others = (1 - recomputed.layers) * layers;
  const auto share = [&](const std::optional<std::int64_t>& of) {
    return of ? share_of_layers(run, *of, others) : 1.0;
  };
  if (options.activation_function) add_module(recomputed, "activation", share(options.activation_function_layers));
  if (options.norms) add_module(recomputed, "layernorm", share(options.norm_layers));
  if (options.mla_attention && run.model.attention.multi_latent)
    add_module(recomputed, "mla_attention");
  else if (options.mla_up_projection)
    add_module(recomputed, "mla_up_proj");
  add_zero_memory(recomputed, run, layers);
  // swap-attention with a number of layers to recompute recomputes their feed-forward parts.
  if (!run.offload.attention || recomputes_layers(run)) return;
  const double of_feed_forward = share_of_layers(run, options.layers, layers);
  add_module(recomputed, "mlp", of_feed_forward);
  if (run.model.moe.experts > 0) add_module(recomputed, "moe", of_feed_forward);
}

step_time::Recomputed recomputed_of(const TrainingRun& run, double layers) {
  step_time::Recomputed recomputed{.layers = whole_share(run, layers)};
  recomputed.is_half_of_products = run.platform.framework == Framework::torchtitan &&
                                   run.fsdp2.checkpoint == Fsdp2::Checkpoint::every_second_product;
  if (run.recompute.granularity == Recompute::Granularity::selective) {
    for (const std::string& module : run.recompute.modules) recomputed.modules.push_back({.name = module});
    if (run.recompute.modules.empty()) recomputed.modules.push_back({.name = "core_attn"});
  }
  if (on_ascend(run)) add_memory_options(recomputed, run, layers);
  return recomputed;
}

// ---- software -----------------------------------------------------------------------------------------------------

/// Rows of the fullest device over the mean, where the run decides it.
double imbalance(const TrainingRun& run, double usual) {
  const Experts& moe = run.model.moe;
  if (moe.forced_balance || run.parallel.expert == 1) return 1;
  if (moe.capacity_factor <= 0) return usual;
  return moe.pad_to_capacity ? moe.capacity_factor : std::min(moe.capacity_factor, usual);
}

/// Gradients, fp32 weights and moments are read and the latter two written back, 16-bit weights written.
double optimizer_bytes(const OptimizerState& optimizer) {
  const double second_moment = optimizer.kind == Optimizer::adam ? static_cast<double>(optimizer.exp_avg_sq_bytes) : 0;
  const double state = static_cast<double>(optimizer.main_bytes + optimizer.exp_avg_bytes) + second_moment;
  return (optimizer.gradient_16bit ? 2 : 4) + 2 * state + 2;
}

Software software_of(const TrainingRun& run) {
  constexpr std::array<std::string_view, 3> kNames = {"megatron-core", "mindspeed", "titan"};
  Software software = *step_time::find_software(kNames[static_cast<std::size_t>(run.platform.framework)]);
  software.is_eager = keeps_scores(run);
  software.imbalance = imbalance(run, software.imbalance);
  if (on_ascend(run)) software.permutes_plainly = !run.model.moe.permute_fusion;
  if (is_fully_sharded(run)) return software;
  const OptimizerState& optimizer = run.optimizer;
  software.optimizer_bytes = optimizer_bytes(optimizer);
  software.gradient_bytes = optimizer.gradient_16bit ? 2 : 4;
  if (!optimizer.distributed) software.weight_bytes = 0;
  if (!optimizer.overlap_grad_reduce) software.exchange_hidden = 0;
  return software;
}

}  // namespace

PricedRun to_timed_run(const TrainingRun& run, const Chip& chip) {
  PricedRun priced{.run = {}, .software = software_of(run)};
  TimedRun& timed = priced.run;
  timed.model = model_of(run);
  set_layout(timed, run);
  set_sharding(timed, run);
  set_batch(timed, run);
  set_overlap(timed, run, priced.software);
  timed.precision = precision_of(run, chip);
  timed.recomputed = recomputed_of(run, static_cast<double>(timed.model.layers));
  timed.host = host_kept(run);
  return priced;
}

}  // namespace tidemark::estimate
