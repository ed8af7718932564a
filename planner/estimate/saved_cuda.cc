#include "planner/estimate/saved_cuda.h"

#include <algorithm>

#include "planner/estimate/activation_offload.h"
#include "planner/estimate/attention_backend.h"
#include "planner/estimate/selective_recompute.h"

namespace tidemark::estimate {
namespace {

double number(std::int64_t value) {
  return static_cast<double>(value);
}

/// Width of a saved input of a matrix product: runs in 8 or 4 bits keep the quantised one.
double input_bytes(const TrainingRun& run, const LocalSizes& sizes) {
  return run.quantization.used ? quantized_bytes(run.quantization) : sizes.element_bytes;
}

/// What a gated unit keeps beside the input of the next product: unfused, its activated half is multiplied by the
/// other.
double gate_bytes(const TrainingRun& run, const LocalSizes& sizes) {
  return run.model.unfused_gate ? sizes.element_bytes : 0;
}

double dropout_mask(const TrainingRun& run, const LocalSizes& sizes) {
  return run.model.hidden_dropout > 0 ? sizes.shard_tokens * sizes.hidden : 0;
}

/// What the attention core keeps beside q, k, v and its output. `keys_repeated_bytes`: keys and values copied to every
/// query head, which only the unfused core does.
double saved_core(const TrainingRun& run, const LocalSizes& sizes, double keys, double output_bytes,
                  double keys_repeated_bytes) {
  const AttentionBackend backend = attention_backend(run);
  const double rows = sizes.sequences * sizes.heads * sizes.queries;
  if (stores_scores(backend)) {
    // The fused softmax takes 16-bit scores only; unfused it keeps its fp32 output.
    const bool fused = run.model.attention.masked_softmax_fusion && sizes.element_bytes < 4;
    const double softmax = fused ? 2 : 4;
    const double dropout = run.model.attention.dropout > 0 ? sizes.element_bytes + 1 : 0;  // output and mask
    return rows * keys * (softmax + dropout) + keys_repeated_bytes;
  }
  const double log_sum_exp = rows * 4;
  return backend == AttentionBackend::flash ? log_sum_exp + output_bytes : log_sum_exp;
}

SavedAttention saved_latent_attention(const TrainingRun& run, const LocalSizes& sizes) {
  const Attention& attention = run.model.attention;
  const double latent = number(attention.q_lora_rank + attention.kv_lora_rank);
  const double query_dim = number(attention.qk_head_dim + attention.qk_rope_dim);
  const double value_bytes = sizes.tokens * sizes.heads * number(attention.v_head_dim) * sizes.element_bytes;
  SavedAttention saved;
  saved.latent = sizes.shard_tokens * (latent + number(attention.qk_rope_dim)) * sizes.element_bytes;
  saved.latent_norm = sizes.shard_tokens * latent * sizes.element_bytes;
  // Values are made contiguous while the up-projection they are a view of is still held.
  saved.qkv = sizes.tokens * sizes.heads * 2 * query_dim * sizes.element_bytes + 2 * value_bytes;
  saved.core = saved_core(run, sizes, sizes.keys, value_bytes, 0);
  saved.context = value_bytes / sizes.element_bytes * input_bytes(run, sizes);
  return saved;
}

SavedAttention saved_grouped_attention(const TrainingRun& run, const LocalSizes& sizes) {
  const Attention& attention = run.model.attention;
  const double query_bytes = sizes.tokens * sizes.query_width * sizes.element_bytes;
  const double key_bytes = sizes.tokens * sizes.key_width * sizes.element_bytes;
  const double repeated = attention.groups < attention.heads ? 2 * query_bytes : 0;
  SavedAttention saved;
  saved.qkv = query_bytes + 2 * key_bytes;
  if (attention.qk_norm) saved.qk_norm = query_bytes + key_bytes;
  saved.core = saved_core(run, sizes, sizes.keys, query_bytes, repeated);
  saved.context = query_bytes / sizes.element_bytes * input_bytes(run, sizes);
  return saved;
}

/// Gradients alive while the feed-forward part runs backward: outputs of its products, the gathered input, and the
/// weight gradient where it is not accumulated in place.
double mlp_backward(const TrainingRun& run, const LocalSizes& sizes) {
  const double gathered = shards_sequence(run) ? sizes.tokens * sizes.hidden * sizes.element_bytes : 0;
  const double weight = run.optimizer.gradient_fusion ? 0 : sizes.ffn * sizes.gate * sizes.hidden * sizes.element_bytes;
  return sizes.tokens * sizes.ffn * (sizes.gate + 1) * sizes.element_bytes + gathered + weight;
}

double experts_backward(const LocalSizes& sizes) {
  const double widths = 2 * sizes.expert_hidden + (sizes.gate + 1) * sizes.expert_width;
  return sizes.expert_rows * widths * sizes.element_bytes;
}

/// Bytes that stay on the device when the groups that may go do.
double kept_of(const TrainingRun& run, const LocalSizes& sizes, const SavedLayer& saved) {
  const double all = saved.total();
  const double gone = all - without_offloaded(run, sizes, saved).total();
  return all - std::clamp(run.offload.share, 0.0, 1.0) * gone;
}

LayerCost cost_of(const TrainingRun& run, const LocalSizes& sizes, const SavedLayer& full, double mlp_backward_bytes,
                  bool stays) {
  const SavedLayer kept{.attention = without_recomputed(run, full.attention), .mlp = without_recomputed(run, full.mlp)};
  const double mlp_rebuilt = full.mlp.total() - kept.mlp.total();
  // When attention is rebuilt, the feed-forward part above it has gone.
  const double attention_rebuilt = full.attention.total() - kept.attention.total() - kept.mlp.total();
  return {.kept = stays ? kept.total() : kept_of(run, sizes, kept),
          .rebuilt = full.total(),
          .backward = std::max(mlp_backward_bytes + mlp_rebuilt, attention_rebuilt)};
}

}  // namespace

SavedAttention saved_attention_cuda(const TrainingRun& run, const LocalSizes& sizes) {
  SavedAttention saved =
      run.model.attention.multi_latent ? saved_latent_attention(run, sizes) : saved_grouped_attention(run, sizes);
  saved.input = sizes.boundary_bytes;
  saved.norm = sizes.shard_tokens * sizes.hidden * input_bytes(run, sizes);
  if (run.model.output_norms) saved.output_norms = 2 * sizes.boundary_bytes;
  saved.mask = dropout_mask(run, sizes);
  return saved;
}

SavedAttention saved_cross_attention_cuda(const TrainingRun& run, const LocalSizes& sizes, const LocalSizes& encoder) {
  SavedAttention saved = saved_attention_cuda(run, sizes);
  const double query_bytes = sizes.tokens * sizes.query_width * sizes.element_bytes;
  saved.qkv = query_bytes + 2 * encoder.tokens * encoder.key_width * encoder.element_bytes;
  saved.core = saved_core(run, sizes, encoder.keys, query_bytes, 0);
  return saved;
}

SavedMlp saved_mlp_cuda(const TrainingRun& run, const LocalSizes& sizes) {
  SavedMlp saved;
  saved.input = sizes.boundary_bytes;
  saved.norm = sizes.shard_tokens * sizes.hidden * input_bytes(run, sizes);
  saved.projected = sizes.tokens * sizes.ffn * sizes.gate * sizes.element_bytes;
  saved.activated = sizes.tokens * sizes.ffn * (input_bytes(run, sizes) + gate_bytes(run, sizes));
  saved.mask = dropout_mask(run, sizes);
  return saved;
}

SavedMlp saved_experts_cuda(const TrainingRun& run, const LocalSizes& sizes) {
  const Experts& moe = run.model.moe;
  const double input = input_bytes(run, sizes);
  SavedMlp saved;
  saved.input = sizes.boundary_bytes;
  saved.norm = sizes.boundary_bytes;  // the router reads it too: never only in 8 bits
  saved.rows = sizes.expert_rows * sizes.expert_hidden * input;
  saved.expert_projected = sizes.expert_rows * sizes.expert_width * sizes.gate * sizes.element_bytes;
  const double activated = sizes.expert_rows * sizes.expert_width * input;
  saved.expert_activated = activated + sizes.expert_rows * sizes.expert_width * gate_bytes(run, sizes);
  // Router probabilities multiply the activation; only the fused kernels of gated units keep their input alone.
  const bool fused = (run.model.gated && !run.model.unfused_gate) || moe.fused_weighted_squared_relu;
  if (!fused) saved.weighted = activated;
  saved.shared_projected = sizes.tokens * sizes.shared_width * sizes.gate * sizes.element_bytes;
  saved.shared_activated = sizes.tokens * sizes.shared_width * (input + gate_bytes(run, sizes));
  // Logits, scores and probabilities in fp32, and the routing map.
  saved.router = sizes.shard_tokens * number(moe.experts) * 13;
  saved.mask = dropout_mask(run, sizes);
  return saved;
}

LayerCost layer_cost_cuda(const TrainingRun& run, const LocalSizes& sizes, bool experts, bool stays) {
  const SavedLayer full{.attention = saved_attention_cuda(run, sizes),
                        .mlp = experts ? saved_experts_cuda(run, sizes) : saved_mlp_cuda(run, sizes)};
  return cost_of(run, sizes, full, experts ? experts_backward(sizes) : mlp_backward(run, sizes), stays);
}

LayerCost attention_cost_cuda(const TrainingRun& run, const LocalSizes& sizes) {
  return cost_of(run, sizes, {.attention = saved_attention_cuda(run, sizes)}, 0, true);
}

LayerCost mlp_cost_cuda(const TrainingRun& run, const LocalSizes& sizes, bool experts) {
  const SavedLayer full{.mlp = experts ? saved_experts_cuda(run, sizes) : saved_mlp_cuda(run, sizes)};
  return cost_of(run, sizes, full, experts ? experts_backward(sizes) : mlp_backward(run, sizes), true);
}

}  // namespace tidemark::estimate
