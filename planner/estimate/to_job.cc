#include "planner/estimate/to_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "planner/estimate/attention_backend.h"
#include "planner/estimate/local_sizes.h"
#include "planner/estimate/rank_memory.h"

namespace tidemark::estimate {
namespace {

// ---- what a JobSpec cannot say ------------------------------------------------------------------------------------

/// Expert ranks as a JobSpec has them: experts split by tensor, or whole on expert x tensor ranks.
bool has_other_expert_tensor(const Parallel& parallel) {
  if (parallel.expert_tensor == parallel.tensor) return false;
  return parallel.expert_tensor != 1 || parallel.expert % parallel.tensor != 0;
}

std::optional<std::string> reason_against(const TrainingRun& run) {
  const Model& model = run.model;
  const bool moe = model.moe.experts > 0;
  const std::array<std::pair<bool, const char*>, 13> reasons = {{
      {model.kind == ModelClass::t5, "T5"},
      {model.kind == ModelClass::bert, "BERT"},
      {model.kind == ModelClass::hybrid, "a model with state-space layers"},
      {run.optimizer.fsdp || run.optimizer.sharded_gradients, "Megatron FSDP"},
      {run.precision == Precision::fp32, "training in fp32"},
      {keeps_scores(run),
       "attention that keeps its scores (give --attention-backend flash or fused, or --use-flash-attn)"},
      {run.parallel.schedule == Schedule::dualpipev, "the DualPipeV schedule"},
      {run.loss.preference, "preference training with its reference model"},
      {model.attention.share_factor > 1, "layers that share keys and values"},
      {model.positions == PositionEmbedding::alibi, "ALiBi, whose bias is kept by every layer"},
      {moe && model.moe.latent > 0, "experts on a latent width"},
      {moe && has_other_expert_tensor(run.parallel),
       "this expert tensor size (1 on whole multiples of tensor, or tensor)"},
      {run.parallel.optimizer_instances > 1, "several instances of the distributed optimizer"},
  }};
  for (const auto& [holds, what] : reasons)
    if (holds) return what;
  return std::nullopt;
}

/// Products in 8 bits beside 16-bit parameters, as a JobSpec has them.
bool is_planned_in_fp8(const TrainingRun& run) {
  const Quantization& quantization = run.quantization;
  return quantization.used && !quantization.four_bit && !quantization.parameters;
}

std::vector<std::string> left_out(const TrainingRun& run) {
  const bool recomputes = run.recompute.granularity != Recompute::Granularity::none ||
                          run.recompute.activation_function || run.recompute.norms;
  const bool offloads = !run.offload.modules.empty() || run.offload.attention || run.optimizer.on_host;
  const std::array<std::pair<bool, const char*>, 10> options = {{
      {recomputes, "recompute options of the run: the policy decides what is recomputed"},
      {offloads, "offload and swap options of the run: the policy decides what is swapped"},
      {run.quantization.used && !is_planned_in_fp8(run), "8-bit parameters and 4-bit training: planned in 16 bits"},
      {run.model.hidden_dropout > 0, "masks of hidden dropout"},
      {run.model.positions == PositionEmbedding::learned_absolute, "the table of learned positions"},
      {run.model.variable_lengths, "shorter samples: planned at the full sequence length"},
      {run.model.linear_bias, "biases of linear layers, but for queries, keys and values"},
      {run.loss.fused || run.loss.chunk_tokens > 0, "loss fusion and chunks: planned as one unfused loss"},
      {run.optimizer.kind == Optimizer::muon, "muon: its state is planned as Adam's"},
      {run.model.attention.groups < run.parallel.tensor && !run.model.attention.multi_latent,
       "fewer query groups than tensor ranks: planned as one a rank"},
  }};
  std::vector<std::string> lines;
  for (const auto& [holds, what] : options)
    if (holds) lines.push_back(fmt::format("not in the plan: {}", what));
  return lines;
}

// ---- the job ------------------------------------------------------------------------------------------------------

graph_build::AttentionSpec attention_of(const TrainingRun& run) {
  const Attention& from = run.model.attention;
  graph_build::AttentionSpec to{.heads = from.heads};
  if (from.multi_latent) {
    to.kind = graph_build::AttentionSpec::Kind::mla;
    to.q_lora_rank = from.q_lora_rank;
    to.kv_lora_rank = from.kv_lora_rank;
    to.qk_rope_dim = from.qk_rope_dim;
    to.qk_nope_dim = from.qk_head_dim;
    to.v_head_dim = from.v_head_dim;
    to.v_padded = on_ascend(run) && !from.v_without_padding && from.v_head_dim < from.qk_rope_dim + from.qk_head_dim;
  } else {
    to.kv_heads = std::max(from.groups, run.parallel.tensor);
    to.head_dim = from.head_dim;
    to.qk_norm = from.qk_norm;
    to.qkv_bias = from.qkv_bias || run.model.linear_bias;
  }
  return to;
}

graph_build::MoeSpec moe_of(const TrainingRun& run) {
  const Experts& from = run.model.moe;
  const bool folded = !on_ascend(run) && run.model.gated;
  const bool drops = from.experts > 0 && from.capacity_factor > 0;
  return {.experts = from.experts,
          .top_k = from.experts > 0 ? from.top_k : 0,
          .width = from.experts > 0 ? from.width : 0,
          .shared_width = from.experts > 0 ? from.shared_width : 0,
          .shared_gate = from.experts > 0 && from.shared_width > 0 && from.shared_gate,
          .probabilities = folded ? graph_build::MoeSpec::Probabilities::in_activation
                                  : graph_build::MoeSpec::Probabilities::at_unpermute,
          .capacity_factor = drops ? from.capacity_factor : 0,
          .pad_to_capacity = drops && from.pad_to_capacity};
}

/// Layers that are not no-ops, renumbered without gaps, in slots[rank][chunk].
struct Placed {
  std::vector<graph_build::LayerKind> layers;
  std::vector<std::vector<std::vector<graph_build::Slot>>> slots;
};

Placed place(const TrainingRun& run) {
  const auto ranks = run.parallel.chunks.size();
  Placed placed;
  placed.slots.resize(ranks);
  std::int32_t mtp = 0;
  for (std::size_t chunk = 0; chunk < static_cast<std::size_t>(run.parallel.virtual_pipeline); ++chunk) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Chunk& from = run.parallel.chunks[rank][chunk];
      std::vector<graph_build::Slot>& slots = placed.slots[rank].emplace_back();
      for (const std::int64_t layer : from.layers) {
        slots.push_back(
            {.kind = graph_build::Slot::Kind::layer, .layer = static_cast<std::int32_t>(placed.layers.size())});
        placed.layers.push_back(run.model.moe.is_moe[static_cast<std::size_t>(layer)] ? graph_build::LayerKind::moe
                                                                                      : graph_build::LayerKind::dense);
      }
      for (std::int64_t module = 0; module < from.mtp; ++module)
        slots.push_back({.kind = graph_build::Slot::Kind::mtp, .layer = mtp++});
    }
  }
  return placed;
}

/// A JobSpec has one size of optimizer state for all parameters; shares in host memory count as gone.
std::int32_t optimizer_bytes_of(const TrainingRun& run) {
  const OptimizerState& state = run.optimizer;
  if (state.on_host) return 0;
  double bytes = 12;
  if (state.precision_aware)
    bytes = static_cast<double>(state.main_bytes + state.exp_avg_bytes + state.exp_avg_sq_bytes);
  if (state.moments_16bit && state.reuse_fp32_parameter) bytes = 8;
  if (state.kind == Optimizer::sgd) bytes = 8;  // the master copy and one moment
  return static_cast<std::int32_t>(std::ceil(bytes * (1 - state.host_share)));
}

graph_build::ParallelSpec parallel_of(const TrainingRun& run) {
  const Parallel& from = run.parallel;
  const auto narrow = [](std::int64_t n) { return static_cast<std::int32_t>(std::min<std::int64_t>(n, 1 << 30)); };
  const bool extends = run.model.moe.experts > 0 && from.tensor > 1 && from.expert_tensor == 1;
  graph_build::ParallelSpec to{
      .tensor = narrow(from.tensor),
      .sequence_parallel = from.sequence_parallel,
      .pipeline = narrow(from.pipeline),
      .virtual_pipeline = narrow(from.virtual_pipeline),
      .context = narrow(from.context),
      .expert = narrow(extends ? from.expert / from.tensor : from.expert),
      .tensor_extends_expert = extends,
      .data = narrow(from.data),
      .micro_batch = run.batch.micro,
      .global_batch = run.batch.global,
      .overlap_forward_backward = from.overlap_forward_backward || from.overlap_expert_communication};
  to.gradient_bytes = run.optimizer.gradient_16bit ? 2 : 4;
  to.optimizer_bytes = optimizer_bytes_of(run);
  to.distributed_optimizer = run.optimizer.distributed;
  if (is_planned_in_fp8(run)) to.compute = graph_build::ParallelSpec::Compute::fp8;
  to.reuse_fp32_parameter = run.optimizer.reuse_fp32_parameter && to.optimizer_bytes >= 4;
  return to;
}

/// What the plan has in its own storages; 8-bit copies of weights are part of the parameters'.
bool is_training_state(std::string_view term, const TrainingRun& run) {
  constexpr std::array<std::string_view, 6> kState = {"parameters", "gradients",     "main_parameters",
                                                      "moments",    "gradient_copy", "reference_model"};
  if (term == "quantized_weights") return is_planned_in_fp8(run);
  return std::ranges::find(kState, term) != kState.end();
}

/// Of the rank whose framework keeps most, one rank a stage.
Result<Bytes> kept_by_framework(const TrainingRun& run) {
  double most = 0;
  const std::int64_t stages = run.parallel.pipeline;
  const std::int64_t stride =
      run.parallel.pipeline_inside_data ? run.parallel.tensor * run.parallel.context : run.parallel.world / stages;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const Result<RankMemory> memory = estimate_rank(run, stage * stride);
    if (!memory) return memory.error();
    double kept = 0;
    for (const Term& term : memory.value().steady)
      if (!is_training_state(term.name, run)) kept += term.bytes;
    most = std::max(most, kept);
  }
  return static_cast<Bytes>(std::ceil(most));
}

}  // namespace

Result<PlannedRun> to_job(const TrainingRun& run, std::string name) {
  if (const std::optional<std::string> reason = reason_against(run))
    return bad_input(fmt::format("a plan cannot describe {}; estimate does", *reason));
  const Result<Bytes> kept = kept_by_framework(run);
  if (!kept) return kept.error();
  Placed placed = place(run);
  PlannedRun planned;
  planned.left_out = left_out(run);
  graph_build::JobSpec& job = planned.job;
  job.model = {.name = std::move(name),
               .hidden = run.model.hidden,
               .vocabulary = run.model.vocabulary.padded,
               .sequence = run.model.sequence,
               .layers = std::move(placed.layers),
               .mtp_layers = run.model.mtp_layers,
               .attention = attention_of(run),
               .activation = run.model.gated ? graph_build::Activation::swiglu : graph_build::Activation::gelu,
               .dense_width = run.model.ffn,
               .moe = moe_of(run),
               .norm = run.model.output_norms ? graph_build::NormPlacement::sandwich : graph_build::NormPlacement::pre,
               .tied_embedding = run.model.tied_embedding};
  job.parallel = parallel_of(run);
  job.parallel.slots = std::move(placed.slots);
  job.parallel.framework_bytes = kept.value();
  return planned;
}

}  // namespace tidemark::estimate
