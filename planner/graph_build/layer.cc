#include "planner/graph_build/layer.h"

#include "planner/graph_build/elementwise.h"

namespace tidemark::graph_build {
namespace {

constexpr const char* kNorms = "norms";

bool is_sandwich(const BlockContext& c) {
  return c.model.norm == NormPlacement::sandwich;
}

Mlp dense_mlp(const BlockContext& c) {
  return {.op_name = "mlp", .width = c.model.dense_width / c.shapes.tensor, .input_bytes = c.shapes.input_bytes()};
}

/// The output of a sub-layer is saved only where a norm reads it.
Ref sub_layer_output(const BlockContext& c, const char* name) {
  const Bytes bytes = c.local_bytes(c.model.hidden);
  return is_sandwich(c) ? c.builder.saved(name, bytes) : c.builder.temporary(name, bytes);
}

/// out = residual + sub-layer output, normalised first in a sandwich.
void join_residual(const BlockContext& c, const std::string& name, Ref sub_layer_out, Ref residual, Ref out) {
  if (is_sandwich(c)) {
    forward_norm(c, "layer.post_" + name + "_norm", kNorms, sub_layer_out, out, {residual});
  } else {
    token_op(c, OpPhase::forward, "layer." + name + "_residual", {sub_layer_out, residual}, {out}, c.model.hidden);
  }
}

void forward_attention_half(const BlockContext& c, LayerTensors& t) {
  BlockBuilder& b = c.builder;
  const Bytes bytes = c.local_bytes(c.model.hidden);
  b.module("input_norm");
  t.y1 = b.saved("y1", c.local_input_bytes(c.model.hidden));
  b.tag("y1");
  forward_norm(c, "layer.input_norm", kNorms, t.x, t.y1);
  b.recipe("y1", {t.y1});
  b.module("self_attention");
  t.attention_out = sub_layer_output(c, "attention_out");
  const bool sandwich = is_sandwich(c);
  t.attention = forward_attention(c, t.y1, t.attention_out, sandwich ? "attention_out" : "x1");
  if (sandwich) b.recipe("attention_out", {t.attention_out});
  b.module("layer");
  t.x1 = b.saved("x1", bytes);
  b.tag("x1");
  join_residual(c, "attention", t.attention_out, t.x, t.x1);
  b.recipe("x1", {t.x1});
}

void forward_mlp_half(const BlockContext& c, LayerKind kind, LayerTensors& t, Ref out) {
  BlockBuilder& b = c.builder;
  b.module("mlp_norm");
  // Routers read it in 16 bits.
  t.y2 = b.saved("y2", kind == LayerKind::moe ? c.local_bytes(c.model.hidden) : c.local_input_bytes(c.model.hidden));
  b.tag("y2");
  forward_norm(c, "layer.pre_mlp_norm", kNorms, t.x1, t.y2);
  b.recipe("y2", {t.y2});
  b.module("mlp");
  t.mlp_out = sub_layer_output(c, "mlp_out");
  if (kind == LayerKind::moe) {
    t.moe = forward_moe(c, t.y2, t.mlp_out);
  } else {
    t.dense = forward_mlp(c, dense_mlp(c), t.y2, t.mlp_out, "mlp_out");
  }
  if (b.is_saved(t.mlp_out)) b.recipe("mlp_out", {t.mlp_out});
  b.tag("");
  join_residual(c, "mlp", t.mlp_out, t.x1, out);
}

/// Gradient of a sub-layer's output: through its norm in a sandwich, else that of the sum.
Ref sub_layer_gradient(const BlockContext& c, const std::string& name, Ref sub_layer_out, Ref d_sum) {
  if (!is_sandwich(c)) return d_sum;
  const Ref d = c.builder.temporary(name + "_out_gradient", c.local_bytes(c.model.hidden));
  backward_norm(c, "layer.post_" + name + "_norm", kNorms, sub_layer_out, {d_sum}, d);
  return d;
}

}  // namespace

LayerTensors forward_layer(const BlockContext& c, LayerKind kind, Ref x, Ref out) {
  LayerTensors t{.x = x};
  forward_attention_half(c, t);
  forward_mlp_half(c, kind, t, out);
  return t;
}

void backward_layer(const BlockContext& c, LayerKind kind, const LayerTensors& t, Ref d_out, Ref d_in) {
  BlockBuilder& b = c.builder;
  const Bytes bytes = c.local_bytes(c.model.hidden);
  b.module("mlp");
  const Ref d_mlp = sub_layer_gradient(c, "mlp", t.mlp_out, d_out);
  std::vector<Ref> d_y2;
  if (kind == LayerKind::moe) {
    d_y2 = backward_moe(c, t.moe, t.y2, d_mlp);
  } else {
    d_y2 = {b.temporary("y2_gradient", bytes)};
    backward_mlp(c, dense_mlp(c), t.dense, t.y2, d_mlp, d_y2.front());
  }
  b.module("layer");
  const Ref d_x1 = b.temporary("x1_gradient", bytes);
  backward_norm(c, "layer.pre_mlp_norm", kNorms, t.x1, d_y2, d_x1, {d_out});
  b.module("self_attention");
  const Ref d_attention = sub_layer_gradient(c, "attention", t.attention_out, d_x1);
  const std::vector<Ref> d_y1 = backward_attention(c, t.attention, t.y1, d_attention);
  b.module("layer");
  backward_norm(c, "layer.input_norm", kNorms, t.x, d_y1, d_in, {d_x1});
  b.flush();
}

}  // namespace tidemark::graph_build
