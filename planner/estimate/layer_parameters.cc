#include "planner/estimate/layer_parameters.h"

#include <algorithm>

#include "planner/estimate/local_sizes.h"

namespace tidemark::estimate {
namespace {

using List = std::vector<Parameter>;

void append_vector(std::int64_t elements, List& list) {
  list.push_back({.elements = elements});
}

void append_linear(std::int64_t elements, List& list) {
  list.push_back({.elements = elements, .role = ParameterRole::linear});
}

std::int64_t norm_elements(const TrainingRun& run, std::int64_t width) {
  return run.model.norm == Norm::rms_norm ? width : 2 * width;
}

/// The two down-projections are on every rank of a tensor group, the up-projections are split by heads.
void append_latent_attention(const TrainingRun& run, List& list) {
  const Attention& attention = run.model.attention;
  const std::int64_t hidden = run.model.hidden;
  const auto heads_wide = [&](std::int64_t width) { return attention.heads * width / run.parallel.tensor; };
  const std::int64_t query_dim = attention.qk_head_dim + attention.qk_rope_dim;
  append_norm(run, list);
  if (attention.q_lora_rank > 0) {
    append_linear(attention.q_lora_rank * hidden, list);
    append_linear(heads_wide(query_dim) * attention.q_lora_rank, list);
    if (attention.qk_norm) append_vector(norm_elements(run, attention.q_lora_rank), list);
  } else {
    append_linear(heads_wide(query_dim) * hidden, list);
  }
  append_linear((attention.kv_lora_rank + attention.qk_rope_dim) * hidden, list);
  append_linear(heads_wide(attention.qk_head_dim + attention.v_head_dim) * attention.kv_lora_rank, list);
  append_linear(heads_wide(attention.v_head_dim) * hidden, list);
  if (attention.qk_norm) append_vector(norm_elements(run, attention.kv_lora_rank), list);
}

/// Without the grouped GEMM on Ascend every expert has tensors of its own; with it MindSpeed keeps one for all.
void append_routed_experts(const TrainingRun& run, List& list) {
  const Experts& moe = run.model.moe;
  const std::int64_t local = moe.experts / run.parallel.expert;
  const std::int64_t width = moe.latent > 0 ? moe.latent : run.model.hidden;
  const std::int64_t gate = run.model.gated ? 2 : 1;
  const std::int64_t tensor = run.parallel.expert_tensor;
  const bool one_tensor = on_ascend(run) && moe.grouped_gemm;
  const std::int64_t together = one_tensor ? local : 1;
  const auto append = [&](std::int64_t elements, ParameterRole role) {
    list.push_back({.elements = elements, .role = role, .expert = true});
  };
  for (std::int64_t i = 0; i < local / together; ++i) {
    append(together * (width * moe.width * gate / tensor), ParameterRole::linear);
    append(together * (width * moe.width / tensor), ParameterRole::linear);
    if (!run.model.linear_bias || on_ascend(run)) continue;
    append(moe.width * gate / tensor, ParameterRole::vector);
    append(width, ParameterRole::vector);
  }
}

}  // namespace

void append_norm(const TrainingRun& run, List& list) {
  append_vector(norm_elements(run, run.model.hidden), list);
}

void append_attention(const TrainingRun& run, std::int64_t layer, List& list) {
  const Attention& attention = run.model.attention;
  if (run.model.output_norms) {
    append_norm(run, list);
    append_norm(run, list);
  }
  if (attention.multi_latent) return append_latent_attention(run, list);
  const std::int64_t tensor = run.parallel.tensor;
  const std::int64_t query = attention.heads * attention.head_dim / tensor;
  const bool own_keys = attention.share_factor <= 1 || layer % attention.share_factor == 0;
  const std::int64_t keys = own_keys ? attention.groups * attention.head_dim / tensor : 0;
  append_norm(run, list);
  append_linear((query + 2 * keys) * run.model.hidden, list);
  if (attention.qkv_bias || run.model.linear_bias) append_vector(query + 2 * keys, list);
  if (attention.qk_norm) {
    append_vector(norm_elements(run, attention.head_dim), list);
    append_vector(norm_elements(run, attention.head_dim), list);
  }
  append_linear(run.model.hidden * query, list);
  if (run.model.linear_bias) append_vector(run.model.hidden, list);
}

void append_cross_attention(const TrainingRun& run, List& list) {
  const Attention& attention = run.model.attention;
  const std::int64_t query = attention.heads * attention.head_dim / run.parallel.tensor;
  const std::int64_t keys = attention.groups * attention.head_dim / run.parallel.tensor;
  append_norm(run, list);
  append_linear(query * run.model.hidden, list);
  append_linear(2 * keys * run.model.hidden, list);
  append_linear(run.model.hidden * query, list);
  if (!run.model.linear_bias) return;
  append_vector(query, list);
  append_vector(2 * keys, list);
  append_vector(run.model.hidden, list);
}

void append_mlp(const TrainingRun& run, List& list) {
  const std::int64_t gate = run.model.gated ? 2 : 1;
  const std::int64_t tensor = run.parallel.tensor;
  append_norm(run, list);
  append_linear(run.model.ffn * gate / tensor * run.model.hidden, list);
  append_linear(run.model.ffn / tensor * run.model.hidden, list);
  if (!run.model.linear_bias) return;
  append_vector(run.model.ffn * gate / tensor, list);
  append_vector(run.model.hidden, list);
}

void append_experts(const TrainingRun& run, List& list) {
  const Experts& moe = run.model.moe;
  const std::int64_t hidden = run.model.hidden;
  append_norm(run, list);
  list.push_back({.elements = moe.experts * hidden, .role = ParameterRole::matrix});
  if (moe.latent > 0) {
    append_linear(moe.latent * hidden, list);
    append_linear(moe.latent * hidden, list);
  }
  append_routed_experts(run, list);
  if (moe.shared_width <= 0) return;
  append_linear(hidden * moe.shared_width * (run.model.gated ? 2 : 1) / run.parallel.tensor, list);
  append_linear(hidden * moe.shared_width / run.parallel.tensor, list);
  if (moe.shared_gate) list.push_back({.elements = hidden, .role = ParameterRole::matrix});
}

}  // namespace tidemark::estimate
