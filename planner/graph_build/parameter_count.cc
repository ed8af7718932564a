#include "planner/graph_build/parameter_count.h"

namespace tidemark::graph_build {
namespace {

double number(std::int64_t value) {
  return static_cast<double>(value);
}

double grouped_query(const AttentionSpec& a, double hidden) {
  const double query = number(a.heads * a.head_dim), key_value = 2 * number(a.kv_heads * a.head_dim);
  double count = hidden * (query + key_value) + query * hidden;
  if (a.qkv_bias) count += query + key_value;
  if (a.qk_norm) count += 2 * number(a.head_dim);
  return count;
}

double latent(const AttentionSpec& a, double hidden) {
  const double heads = number(a.heads), q_rank = number(a.q_lora_rank), kv_rank = number(a.kv_lora_rank);
  const double query_key = number(a.qk_nope_dim + a.qk_rope_dim), value = number(a.v_head_dim);
  const bool has_q_rank = a.q_lora_rank > 0;
  const double queries =
      has_q_rank ? hidden * q_rank + q_rank + q_rank * heads * query_key : hidden * heads * query_key;
  const double keys_values =
      hidden * (kv_rank + number(a.qk_rope_dim)) + kv_rank + kv_rank * heads * (number(a.qk_nope_dim) + value);
  return queries + keys_values + heads * value * hidden;
}

/// Mamba-2 (arXiv 2405.21060): one projection to gate, values, B, C and steps; a convolution with a bias over all but
/// gate and steps; step bias, A and D a head; a norm; the projection back.
double mamba(const MambaSpec& m, double hidden) {
  const double inner = number(m.heads * m.head_dim), states = 2 * number(m.groups * m.state_dim);
  const double heads = number(m.heads);
  return hidden * (2 * inner + states + heads) + (inner + states) * number(m.convolution + 1) + 3 * heads + inner +
         inner * hidden;
}

/// Gated DeltaNet (arXiv 2412.06464) as Qwen3-Next has it: projections to queries, keys, values and gate, and to two
/// numbers a head; a convolution without bias over all but the gate; step bias and A a head; a norm a head; the
/// projection back.
double linear_attention(const LinearAttentionSpec& l, double hidden) {
  const double keys = number(l.key_heads * l.key_dim), values = number(l.value_heads * l.value_dim);
  const double heads = number(l.value_heads);
  return hidden * (2 * keys + 2 * values) + hidden * 2 * heads + (2 * keys + values) * number(l.convolution) +
         2 * heads + number(l.value_dim) + values * hidden;
}

double mixer(const ModelSpec& model, LayerKind kind) {
  const double hidden = number(model.hidden);
  switch (mixer_of(kind)) {
    case Mixer::mamba:
      return mamba(model.mamba, hidden);
    case Mixer::linear_attention:
      return linear_attention(model.linear_attention, hidden);
    case Mixer::attention:
      break;
  }
  return model.attention.kind == AttentionSpec::Kind::mla ? latent(model.attention, hidden)
                                                          : grouped_query(model.attention, hidden);
}

double feed_forward(const ModelSpec& model, std::int64_t width) {
  return (is_gated(model.activation) ? 3 : 2) * number(model.hidden) * number(width);
}

}  // namespace

LayerCount count_layer(const ModelSpec& model, LayerKind kind) {
  const double norms = (model.norm == NormPlacement::sandwich ? 4 : 2) * number(model.hidden);
  double every_token = mixer(model, kind) + norms;
  if (!has_experts(kind)) every_token += feed_forward(model, model.dense_width);
  if (!has_experts(kind)) return {.total = every_token, .active = every_token};
  const MoeSpec& moe = model.moe;
  every_token += number(model.hidden) * number(moe.experts) + feed_forward(model, moe.shared_width);
  if (moe.shared_gate) every_token += number(model.hidden);
  const double expert = feed_forward(model, moe.width);
  return {.total = every_token + number(moe.experts) * expert, .active = every_token + number(moe.top_k) * expert};
}

double count_mtp_join(const ModelSpec& model) {
  const double hidden = number(model.hidden);
  return 2 * hidden * hidden + 3 * hidden;
}

ParameterCount count_parameters(const ModelSpec& model) {
  const double vocabulary = number(model.vocabulary) * number(model.hidden);
  ParameterCount count;
  count.total = vocabulary + number(model.hidden);  // the last norm
  count.active = count.total;
  for (const LayerKind kind : model.layers) {
    const LayerCount layer = count_layer(model, kind);
    count.total += layer.total;
    count.active += layer.active;
  }
  count.total_both = count.total + (model.tied_embedding ? 0 : vocabulary);
  count.total_with_mtp = count.total_both;
  if (model.mtp_layers > 0)
    count.total_with_mtp +=
        number(model.mtp_layers) * (count_layer(model, model.layers.back()).total + count_mtp_join(model));
  return count;
}

}  // namespace tidemark::graph_build
