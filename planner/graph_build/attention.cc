#include "planner/graph_build/attention.h"

#include "planner/graph_build/attention_core.h"
#include "planner/graph_build/gqa.h"
#include "planner/graph_build/linear.h"
#include "planner/graph_build/mla.h"
#include "planner/graph_build/op_cost.h"

namespace tidemark::graph_build {
namespace {

Linear output_projection(const BlockContext& c) {
  return {.name = "attention.output_projection",
          .group = "attention",
          .inner = c.shapes.heads * c.shapes.v_dim,
          .columns = c.model.hidden,
          .split = Linear::Split::row,
          .input_bytes = c.shapes.input_bytes()};
}

/// The kernel's backward pass reads its output in 16 bits, the projection's weight gradient the 8-bit copy.
Ref quantized_output(const BlockContext& c, Ref core_out) {
  if (!c.shapes.fp8) return core_out;
  BlockBuilder& b = c.builder;
  const std::int64_t columns = c.shapes.heads * c.shapes.v_dim;
  const Ref copy = b.saved("attention_out_fp8", c.full_input_bytes(columns));
  b.tag("attention_out_fp8");
  b.op(OpPhase::forward, {.name = "attention.quantize_output",
                          .cost = vector_cost(c.full_bytes(columns) + c.full_input_bytes(columns)),
                          .reads = {core_out},
                          .writes = {copy}});
  b.recipe("attention_out_fp8", {copy});
  return copy;
}

bool is_mla(const BlockContext& c) {
  return c.model.attention.kind == AttentionSpec::Kind::mla;
}

}  // namespace

AttentionTensors forward_attention(const BlockContext& c, Ref y1, Ref out, const std::string& output_tag) {
  c.builder.module("self_attention");
  AttentionTensors t = is_mla(c) ? forward_mla(c, y1) : forward_gqa(c, y1);
  forward_core(c, t);
  t.projected = quantized_output(c, t.core_out);
  c.builder.tag(output_tag);
  forward_linear(c, output_projection(c), t.projected, out);
  return t;
}

std::vector<Ref> backward_attention(const BlockContext& c, const AttentionTensors& t, Ref y1, Ref d_out) {
  c.builder.module("self_attention");
  const Ref d_core_out = c.builder.temporary("core_gradient", c.full_bytes(c.shapes.heads * c.shapes.v_dim));
  backward_linear(c, output_projection(c), t.projected, d_out, d_core_out);
  const CoreGradients d = backward_core(c, t, d_core_out);
  return is_mla(c) ? backward_mla(c, t, d, y1) : backward_gqa(c, t, d, y1);
}

}  // namespace tidemark::graph_build
