#include "planner/estimate/saved_ascend.h"

#include <algorithm>
#include <cmath>

#include "planner/estimate/memory_options_ascend.h"

namespace tidemark::estimate {
namespace {

double number(std::int64_t value) {
  return static_cast<double>(value);
}

/// The fused kernel keeps maximum and sum of each row, fp32 and eight wide; without it the scores stay.
double saved_core(const TrainingRun& run, const LocalSizes& sizes) {
  const Attention& attention = run.model.attention;
  const double rows = sizes.sequences * sizes.heads * sizes.queries;
  // A bias of positions is scaled anew by every layer, for the kernel's backward.
  const double bias = run.model.positions == PositionEmbedding::alibi ? rows * sizes.keys * sizes.element_bytes : 0;
  if (attention.use_flash) return rows * 2 * 4 * 8 + bias;
  const double softmax = attention.softmax_fp32 ? 6 : 4;
  const double capped = attention.softcapped ? sizes.element_bytes : 0;  // tanh keeps its output
  return rows * sizes.keys * (softmax + capped + (attention.dropout > 0 ? 1 : 0));
}

/// An unfused norm of 16-bit tensors keeps its input in fp32 and what it multiplies by the weight: as much again as
/// input and output of the fused one (megatron/legacy/model/rms_norm.py). `norm_bytes`: of one of these.
double norm_copies(const TrainingRun& run, double norm_bytes) {
  return run.model.unfused_norm ? 2 * norm_bytes : 0;
}

/// Widths of a head in the fused kernel. It wants values as wide as queries; where heads do not come first, both at a
/// multiple (mindspeed_llm/tasks/models/transformer/multi_latent_attention.py: fa_padding_length).
struct LatentWidths {
  double query = 0;  ///< and key
  double value = 0;
  bool pads = false;  ///< the output is cut back by a copy
};

LatentWidths latent_widths(const Attention& attention) {
  const double query = number(attention.qk_head_dim + attention.qk_rope_dim);
  const double value = number(attention.v_head_dim);
  if (!attention.use_flash || attention.v_without_padding || value == query) return {query, value, false};
  if (attention.heads_first) return {query, query, true};
  const double multiple = number(attention.padded_multiple);
  const double padded = std::ceil(query / multiple) * multiple;
  return {padded, padded, true};
}

SavedAttention saved_latent_attention(const TrainingRun& run, const LocalSizes& sizes) {
  const Attention& attention = run.model.attention;
  const double latent = number(attention.q_lora_rank + attention.kv_lora_rank);
  const double head_tokens = sizes.tokens * sizes.heads * sizes.element_bytes;
  const LatentWidths head = latent_widths(attention);
  SavedAttention saved;
  saved.latent = sizes.shard_tokens * (latent + number(attention.qk_rope_dim)) * sizes.element_bytes;
  saved.latent_norm = sizes.shard_tokens * latent * sizes.element_bytes;
  saved.latent_norm += norm_copies(run, saved.latent_norm);
  saved.qkv = head_tokens * (2 * head.query + head.value);
  saved.context = head_tokens * (head.value + (head.pads ? number(attention.v_head_dim) : 0));
  if (!run.model.unfused_rope) saved.rope = head_tokens * number(attention.qk_rope_dim);
  saved.qkv += head_tokens * (attention.cached_keys * head.query + attention.cached_values * head.value);
  return saved;
}

SavedAttention saved_grouped_attention(const TrainingRun& run, const LocalSizes& sizes) {
  const double query_bytes = sizes.tokens * sizes.query_width * sizes.element_bytes;
  const double key_bytes = sizes.tokens * sizes.key_width * sizes.element_bytes;
  SavedAttention saved;
  const double cached = run.model.attention.cached_keys + run.model.attention.cached_values;
  saved.qkv = query_bytes + (2 + cached) * (run.model.attention.repeats_keys ? query_bytes : key_bytes);
  if (run.model.positions == PositionEmbedding::rope && !run.model.unfused_rope) saved.rope = query_bytes + key_bytes;
  if (run.model.attention.qk_norm) {
    saved.qk_norm = query_bytes + key_bytes;
    saved.qk_norm += norm_copies(run, saved.qk_norm);
  }
  saved.context = query_bytes;
  return saved;
}

/// A gated unit of several kernels keeps its activated half for the product with the other one.
double activated_bytes(const TrainingRun& run, const LocalSizes& sizes) {
  return (run.model.unfused_gate ? 2 : 1) * sizes.element_bytes;
}

double gathered_input(const TrainingRun& run, const LocalSizes& sizes) {
  return shards_sequence(run) ? sizes.tokens * sizes.hidden * sizes.element_bytes : 0;
}

double mlp_backward(const TrainingRun& run, const LocalSizes& sizes) {
  const double outputs = sizes.tokens * sizes.ffn * (sizes.gate + 1) * sizes.element_bytes;
  return outputs + gathered_input(run, sizes) + sizes.ffn * sizes.gate * sizes.hidden * sizes.element_bytes;
}

/// Un-permute multiplies by fp32 probabilities: an expanded fp32 gradient, an fp32 product, and the 16-bit gradient of
/// the rows, unless one fused kernel does it all.
double combine_backward(const TrainingRun& run, const LocalSizes& sizes) {
  constexpr double kBytes = 4 + 4 + 2;
  return run.model.moe.permute_fusion ? 0 : kBytes * sizes.expert_rows * sizes.hidden;
}

double experts_backward(const TrainingRun& run, const LocalSizes& sizes, const SavedMlp& full) {
  const double products = full.rows + full.expert_projected + full.expert_activated + full.expert_output;
  double bytes = std::max(combine_backward(run, sizes), products) + sizes.tokens * sizes.hidden * sizes.element_bytes;
  if (gathers_tokens(run)) {
    constexpr double kIndex = 8;  // an int64 a row, expanded over the hidden width
    const double group = number(run.parallel.expert * run.parallel.expert_tensor);
    bytes += kIndex * sizes.expert_rows * sizes.hidden + 2 * group * sizes.boundary_bytes;
  }
  return bytes;
}

SavedLayer full_layer(const TrainingRun& run, const LocalSizes& sizes, bool experts) {
  return {.attention = saved_attention_ascend(run, sizes),
          .mlp = experts ? saved_experts_ascend(run, sizes) : saved_mlp_ascend(run, sizes)};
}

}  // namespace

SavedAttention saved_attention_ascend(const TrainingRun& run, const LocalSizes& sizes) {
  SavedAttention saved =
      run.model.attention.multi_latent ? saved_latent_attention(run, sizes) : saved_grouped_attention(run, sizes);
  saved.input = sizes.boundary_bytes;
  saved.norm = sizes.boundary_bytes + norm_copies(run, sizes.boundary_bytes);
  saved.core = saved_core(run, sizes);
  if (run.model.output_norms) saved.output_norms = 2 * saved.norm;
  return saved;
}

SavedMlp saved_mlp_ascend(const TrainingRun& run, const LocalSizes& sizes) {
  SavedMlp saved;
  saved.input = sizes.boundary_bytes;
  saved.norm = sizes.boundary_bytes + norm_copies(run, sizes.boundary_bytes);
  saved.projected = sizes.tokens * sizes.ffn * sizes.gate * sizes.element_bytes;
  saved.activated = sizes.tokens * sizes.ffn * activated_bytes(run, sizes);
  return saved;
}

SavedMlp saved_experts_ascend(const TrainingRun& run, const LocalSizes& sizes) {
  const double row = sizes.expert_rows * sizes.element_bytes;
  SavedMlp saved;
  saved.input = sizes.boundary_bytes;
  saved.norm = sizes.boundary_bytes + norm_copies(run, sizes.boundary_bytes);
  saved.rows = row * sizes.expert_hidden;
  saved.expert_projected = row * sizes.expert_width * sizes.gate;
  saved.expert_activated = sizes.expert_rows * sizes.expert_width * activated_bytes(run, sizes);
  saved.expert_output = row * sizes.expert_hidden;  // un-permute needs it for the gradient of the router
  saved.shared_projected = sizes.tokens * sizes.shared_width * sizes.gate * sizes.element_bytes;
  saved.shared_activated = sizes.tokens * sizes.shared_width * activated_bytes(run, sizes);
  saved.router = sizes.shard_tokens * number(run.model.moe.experts) * 13;
  return saved;
}

SavedLayer saved_layer_ascend(const TrainingRun& run, const LocalSizes& sizes, bool experts, const LayerPlace& place) {
  return without_swapped(run, place, without_rebuilt(run, place, full_layer(run, sizes, experts)));
}

LayerCost layer_cost_ascend(const TrainingRun& run, const LocalSizes& sizes, bool experts, const LayerPlace& place) {
  const SavedLayer full = full_layer(run, sizes, experts);
  const SavedLayer rebuilt = without_rebuilt(run, place, full);
  const SavedLayer kept = without_swapped(run, place, rebuilt);
  const double mlp_rebuilt = full.mlp.total() - rebuilt.mlp.total();
  const double attention_rebuilt = full.attention.total() - rebuilt.attention.total() - kept.mlp.total();
  const double backward = experts ? experts_backward(run, sizes, full.mlp) : mlp_backward(run, sizes);
  return {
      .kept = kept.total(), .rebuilt = kept.total(), .backward = std::max(backward + mlp_rebuilt, attention_rebuilt)};
}

}  // namespace tidemark::estimate
