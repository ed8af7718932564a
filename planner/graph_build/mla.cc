#include "planner/graph_build/mla.h"

#include "planner/cost/launch_counts.h"
#include "planner/graph_build/elementwise.h"
#include "planner/graph_build/linear.h"
#include "planner/graph_build/op_cost.h"

namespace tidemark::graph_build {
namespace {

/// Row widths of this device's tensors.
struct Widths {
  explicit Widths(const BlockContext& c)
      : q_latent(c.model.attention.q_lora_rank),
        kv_latent(c.model.attention.kv_lora_rank),
        rope(c.model.attention.qk_rope_dim),
        latent(q_latent + kv_latent + rope),
        head_rope(c.shapes.heads * rope),
        head_nope(c.shapes.heads * c.model.attention.qk_nope_dim),
        head_v(c.shapes.heads * c.model.attention.v_head_dim),
        q(c.shapes.heads * c.shapes.qk_dim),
        v(c.shapes.heads * c.shapes.v_stored_dim),
        kv_up(head_nope + head_v) {}
  std::int64_t q_latent, kv_latent, rope, latent, head_rope, head_nope, head_v, q, v, kv_up;
};

Linear down_projection(const BlockContext& c) {
  return {.name = "attention.down_projection",
          .group = "attention",
          .inner = c.model.hidden,
          .columns = Widths(c).latent,
          .input_bytes = c.shapes.input_bytes()};
}

Linear query_projection(const BlockContext& c) {
  const Widths w(c);
  return {.name = "attention.q_up_projection",
          .group = "attention",
          .inner = w.q_latent > 0 ? w.q_latent : c.model.hidden,
          .columns = w.q,
          .split = Linear::Split::column,
          .input_bytes = w.q_latent > 0 ? kActivationBytes : c.shapes.input_bytes()};
}

OpCost key_value_cost(const BlockContext& c) {
  const Widths w(c);
  return linear_cost(c, matmul_cost(c.shapes.tokens, w.kv_latent, w.kv_up));
}

/// Parts are split, rotated, spread over heads and joined again. How the two share what projections, two norms and the
/// rotation of plain attention leave of cost::kMlaLaunches is assumed.
constexpr double kQueryLaunches = 6, kKeyValueLaunches = cost::kMlaLaunches - kQueryLaunches - 2;

/// Rotary embedding of the rope part, then concatenation with the rest.
OpCost query_rotary_cost(const BlockContext& c) {
  const Widths w(c);
  return vector_cost(2 * c.full_bytes(w.head_rope) + 2 * c.full_bytes(w.q), kQueryLaunches);
}

/// The rope key is broadcast to every head and joined to the keys; values are copied to a storage of their own.
OpCost key_value_rotary_cost(const BlockContext& c) {
  const Widths w(c);
  const Bytes copied = c.shapes.v_own_storage ? c.full_bytes(w.head_v) + c.full_bytes(w.v) : 0;
  return vector_cost(c.full_bytes(w.head_rope) + 2 * c.full_bytes(w.q) + copied, kKeyValueLaunches);
}

/// `columns` of the latent, normalised.
void latent_norm(const BlockContext& c, const std::string& name, Ref latent, Ref out, std::int64_t columns) {
  c.builder.op(OpPhase::forward, {.name = name,
                                  .cost = vector_cost(2 * c.local_bytes(columns)),
                                  .reads = {c.builder.parameter("norms"), latent},
                                  .writes = {out}});
}

void forward_latents(const BlockContext& c, Ref y1, AttentionTensors& t) {
  const Widths w(c);
  BlockBuilder& b = c.builder;
  const std::int64_t rows = c.shapes.local_tokens;
  t.latent = b.saved("latent", c.local_bytes(w.latent));
  const auto view = [&](const char* name, std::int64_t first, std::int64_t columns) {
    b.view(t.latent, {.name = name,
                      .offset_bytes = first * kActivationBytes,
                      .shape = {rows, columns},
                      .element_bytes = kActivationBytes});
  };
  if (w.q_latent > 0) view("latent_q", 0, w.q_latent);
  view("latent_kv", w.q_latent, w.kv_latent);
  view("rope_key", w.q_latent + w.kv_latent, w.rope);
  b.tag("latent");
  forward_linear(c, down_projection(c), y1, t.latent);
  b.recipe("latent", {t.latent});
  if (w.q_latent > 0) {
    t.latent_q_norm = b.saved("latent_q_norm", c.local_bytes(w.q_latent));
    b.tag("latent_q_norm");
    latent_norm(c, "attention.latent_q_norm", t.latent, t.latent_q_norm, w.q_latent);
    b.recipe("latent_q_norm", {t.latent_q_norm});
  }
  t.latent_kv_norm = b.saved("latent_kv_norm", c.local_bytes(w.kv_latent));
  b.tag("latent_kv_norm");
  latent_norm(c, "attention.latent_kv_norm", t.latent, t.latent_kv_norm, w.kv_latent);
  b.recipe("latent_kv_norm", {t.latent_kv_norm});
}

void forward_query(const BlockContext& c, Ref y1, AttentionTensors& t) {
  const Widths w(c);
  BlockBuilder& b = c.builder;
  t.q = b.saved("q", c.full_bytes(w.q));
  const Ref raw = b.temporary("q_up", c.full_bytes(w.q));
  b.tag("query");
  forward_linear(c, query_projection(c), w.q_latent > 0 ? t.latent_q_norm : y1, raw);
  b.op(OpPhase::forward, {.name = "attention.q_rotary", .cost = query_rotary_cost(c), .reads = {raw}, .writes = {t.q}});
  b.recipe("query", {t.q});
}

/// The kv up-projection's output: [n, heads, nope | v]. Saved where V stays a view of it.
Ref key_value_storage(const BlockContext& c, bool own) {
  const Widths w(c);
  BlockBuilder& b = c.builder;
  if (own) return b.temporary("kv_up", c.full_bytes(w.kv_up));
  const Ref kv = b.saved("kv", c.full_bytes(w.kv_up));
  const AttentionSpec& a = c.model.attention;
  b.view(
      kv,
      {.name = "k_nope", .shape = {c.shapes.tokens, c.shapes.heads, a.qk_nope_dim}, .element_bytes = kActivationBytes});
  b.view(kv, {.name = "v",
              .offset_bytes = a.qk_nope_dim * kActivationBytes,
              .shape = {c.shapes.tokens, c.shapes.heads, a.v_head_dim},
              .element_bytes = kActivationBytes});
  return kv;
}

void forward_key_value(const BlockContext& c, AttentionTensors& t) {
  const Widths w(c);
  BlockBuilder& b = c.builder;
  const bool own = c.shapes.v_own_storage;
  t.k = b.saved("k", c.full_bytes(w.q));
  if (own) t.v = b.saved("v", c.full_bytes(w.v));
  const Ref kv = key_value_storage(c, own);
  if (!own) t.v = kv;
  b.tag("key_value");
  // The rope key travels with the latent: it is gathered here and broadcast to the heads below.
  const Ref gathered = gather_tokens(c, OpPhase::forward, "attention.kv_up_projection", {t.latent_kv_norm, t.latent},
                                     w.kv_latent + w.rope);
  b.op(OpPhase::forward, {.name = "attention.kv_up_projection",
                          .cost = key_value_cost(c),
                          .reads = {b.parameter("attention"), gathered},
                          .writes = {kv}});
  const Ref rope_key = gathered == t.latent_kv_norm ? t.latent : gathered;
  std::vector<Ref> writes{t.k};
  if (own) writes.push_back(t.v);
  b.op(OpPhase::forward,
       {.name = "attention.kv_rotary", .cost = key_value_rotary_cost(c), .reads = {kv, rope_key}, .writes = writes});
  b.recipe("key_value", {t.k, t.v});
}

/// From dK and dV to the gradient of [kv latent | rope key].
Ref backward_key_value(const BlockContext& c, const AttentionTensors& t, const CoreGradients& d) {
  const Widths w(c);
  BlockBuilder& b = c.builder;
  const OpPhase phase = OpPhase::backward;
  const std::int64_t columns = w.kv_latent + w.rope;
  const Ref d_kv_up = b.temporary("kv_up_gradient", c.full_bytes(w.kv_up + w.rope));
  b.op(phase, {.name = "attention.kv_rotary_backward",
               .cost = key_value_rotary_cost(c),
               .reads = {d.k, d.v},
               .writes = {d_kv_up}});
  const Ref again = gather_tokens(c, phase, "attention.kv_up_projection_again", {t.latent_kv_norm}, w.kv_latent);
  const Ref d_latent = b.temporary("latent_kv_gradient", c.local_bytes(columns));
  const std::string name = "attention.kv_up_projection_gradient";
  const Ref partial = partial_sum(c, name, d_latent, columns);
  b.op(phase, {.name = "attention.kv_up_projection_dx",
               .cost = rows_gradient_cost(key_value_cost(c)),
               .reads = {b.parameter("attention"), d_kv_up},
               .writes = {partial}});
  reduce_tokens(c, phase, name, partial, d_latent, columns);
  b.weight_gradient({.name = "attention.kv_up_projection_dw",
                     .cost = weight_gradient_cost(key_value_cost(c)),
                     .reads = {again, d_kv_up},
                     .writes = {b.gradient("attention")}});
  return d_latent;
}

}  // namespace

AttentionTensors forward_mla(const BlockContext& c, Ref y1) {
  AttentionTensors t;
  forward_latents(c, y1, t);
  forward_query(c, y1, t);
  forward_key_value(c, t);
  return t;
}

std::vector<Ref> backward_mla(const BlockContext& c, const AttentionTensors& t, const CoreGradients& d, Ref y1) {
  const Widths w(c);
  BlockBuilder& b = c.builder;
  const OpPhase phase = OpPhase::backward;
  const bool has_q_latent = w.q_latent > 0;
  const Ref d_q_up = b.temporary("q_up_gradient", c.full_bytes(w.q));
  b.op(phase,
       {.name = "attention.q_rotary_backward", .cost = query_rotary_cost(c), .reads = {d.q}, .writes = {d_q_up}});
  const Ref d_query_in = has_q_latent ? b.temporary("latent_q_gradient", c.local_bytes(w.q_latent))
                                      : b.temporary("y1_query_gradient", c.local_bytes(c.model.hidden));
  backward_linear(c, query_projection(c), has_q_latent ? t.latent_q_norm : y1, d_q_up, d_query_in);
  const Ref d_latent_kv = backward_key_value(c, t, d);

  const Ref d_latent = b.temporary("latent_gradient", c.local_bytes(w.latent));
  std::vector<Ref> reads{b.parameter("norms"), t.latent, d_latent_kv};
  if (has_q_latent) reads.push_back(d_query_in);
  b.op(phase, {.name = "attention.latent_norms_backward",
               .cost = vector_cost(3 * c.local_bytes(w.latent)),
               .reads = reads,
               .writes = {d_latent, b.gradient("norms")}});
  const Ref d_y1 = b.temporary("y1_gradient", c.local_bytes(c.model.hidden));
  backward_linear(c, down_projection(c), y1, d_latent, d_y1);
  if (has_q_latent) return {d_y1};
  return {d_y1, d_query_in};
}

}  // namespace tidemark::graph_build
