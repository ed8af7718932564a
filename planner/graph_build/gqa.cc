#include "planner/graph_build/gqa.h"

#include "planner/graph_build/linear.h"
#include "planner/graph_build/op_cost.h"

namespace tidemark::graph_build {
namespace {

std::int64_t projection_columns(const DeviceShapes& s) {
  return (s.heads + 2 * s.kv_heads) * s.qk_dim;
}

Linear projection(const BlockContext& c) {
  return {.name = "attention.qkv_projection",
          .group = "attention",
          .inner = c.model.hidden,
          .columns = projection_columns(c.shapes),
          .split = Linear::Split::column,
          .input_bytes = c.shapes.input_bytes()};
}

/// Queries and keys on this device.
std::int64_t query_key_columns(const DeviceShapes& s) {
  return (s.heads + s.kv_heads) * s.qk_dim;
}

constexpr double kRotaryLaunches = 2;

/// Rotary embedding reads and writes queries and keys; values are copied where they get a storage of their own.
OpCost rotary_cost(const BlockContext& c) {
  const DeviceShapes& s = c.shapes;
  const std::int64_t copied = c.shapes.v_own_storage ? s.kv_heads : 0;
  return vector_cost(2 * c.full_bytes((s.heads + s.kv_heads + copied) * s.qk_dim), kRotaryLaunches);
}

/// Its kernels: one norm for queries, one for keys.
constexpr double kNormLaunches = 2;

/// Queries and keys as the rotary embedding reads them: normalised head by head, or where the projection put them.
Ref forward_norms(const BlockContext& c, Ref qkv) {
  if (!c.model.attention.qk_norm) return qkv;
  const Bytes bytes = c.full_bytes(query_key_columns(c.shapes));
  const Ref normed = c.builder.temporary("query_key_normed", bytes);
  c.builder.op(OpPhase::forward, {.name = "attention.query_key_norm",
                                  .cost = vector_cost(2 * bytes, kNormLaunches),
                                  .reads = {c.builder.parameter("norms"), qkv},
                                  .writes = {normed}});
  return normed;
}

/// From the gradient of what the rotary embedding read to that of the projection's output.
void backward_norms(const BlockContext& c, const CoreGradients& d, Ref qkv, Ref d_qkv) {
  BlockBuilder& b = c.builder;
  const Bytes bytes = c.full_bytes(query_key_columns(c.shapes));
  const Ref d_normed = b.temporary("query_key_normed_gradient", bytes);
  b.op(OpPhase::backward, {.name = "attention.rotary_backward",
                           .cost = vector_cost(2 * bytes, kRotaryLaunches),
                           .reads = {d.q, d.k},
                           .writes = {d_normed}});
  const Bytes values = c.full_bytes(c.shapes.kv_heads * c.shapes.qk_dim);
  b.op(OpPhase::backward, {.name = "attention.query_key_norm_backward",
                           .cost = vector_cost(3 * bytes + 2 * values, kNormLaunches),
                           .reads = {b.parameter("norms"), qkv, d_normed, d.v},
                           .writes = {d_qkv, b.gradient("norms")}});
}

}  // namespace

AttentionTensors forward_gqa(const BlockContext& c, Ref y1) {
  const DeviceShapes& s = c.shapes;
  BlockBuilder& b = c.builder;
  const bool own = c.shapes.v_own_storage;
  AttentionTensors t;
  t.q = b.saved("q", c.full_bytes(s.heads * s.qk_dim));
  t.k = b.saved("k", c.full_bytes(s.kv_heads * s.qk_dim));
  const Bytes joint = c.full_bytes(projection_columns(s));
  const Ref qkv = own ? b.temporary("qkv", joint) : b.saved("qkv", joint);
  t.v = own ? b.saved("v", c.full_bytes(s.kv_heads * s.qk_dim)) : qkv;
  if (!own) {
    b.view(qkv, {.name = "v",
                 .offset_bytes = (s.heads + s.kv_heads) * s.qk_dim * kActivationBytes,
                 .shape = {s.tokens, s.kv_heads, s.qk_dim},
                 .element_bytes = kActivationBytes});
  }
  b.tag("query_key_value");
  forward_linear(c, projection(c), y1, qkv);
  if (c.model.attention.qk_norm) {  // what the norms read can be there without what they make, and the other way round
    b.recipe("query_key_value", {qkv});
    b.tag("query_key");
  }
  const Ref rotated = forward_norms(c, qkv);
  std::vector<Ref> writes{t.q, t.k};
  if (own) writes.push_back(t.v);
  b.op(OpPhase::forward, {.name = "attention.rotary", .cost = rotary_cost(c), .reads = {rotated}, .writes = writes});
  if (c.model.attention.qk_norm)
    b.recipe("query_key", {t.q, t.k});
  else
    b.recipe("query_key_value", {t.q, t.k, t.v});
  return t;
}

std::vector<Ref> backward_gqa(const BlockContext& c, const AttentionTensors& t, const CoreGradients& d, Ref y1) {
  BlockBuilder& b = c.builder;
  const Ref d_qkv = b.temporary("qkv_gradient", c.full_bytes(projection_columns(c.shapes)));
  if (c.model.attention.qk_norm)
    backward_norms(c, d, t.v, d_qkv);
  else
    b.op(OpPhase::backward, {.name = "attention.rotary_backward",
                             .cost = vector_cost(2 * c.full_bytes(projection_columns(c.shapes)), kRotaryLaunches),
                             .reads = {d.q, d.k, d.v},
                             .writes = {d_qkv}});
  const Ref d_y1 = b.temporary("y1_gradient", c.local_bytes(c.model.hidden));
  backward_linear(c, projection(c), y1, d_qkv, d_y1);
  return {d_y1};
}

}  // namespace tidemark::graph_build
