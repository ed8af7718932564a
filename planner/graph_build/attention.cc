#include "planner/graph_build/attention.h"

#include "planner/graph_build/attention_core.h"
#include "planner/graph_build/gqa.h"
#include "planner/graph_build/linear.h"
#include "planner/graph_build/mla.h"

namespace tidemark::graph_build {
namespace {

Linear output_projection(const BlockContext& c) {
  return {.name = "attention.output_projection",
          .group = "attention",
          .inner = c.shapes.heads * c.shapes.v_dim,
          .columns = c.model.hidden,
          .split = Linear::Split::row};
}

bool is_mla(const BlockContext& c) {
  return c.model.attention.kind == AttentionSpec::Kind::mla;
}

}  // namespace

AttentionTensors forward_attention(const BlockContext& c, Ref y1, Ref out, const std::string& output_tag) {
  c.builder.module("self_attention");
  AttentionTensors t = is_mla(c) ? forward_mla(c, y1) : forward_gqa(c, y1);
  forward_core(c, t);
  c.builder.tag(output_tag);
  forward_linear(c, output_projection(c), t.core_out, out);
  return t;
}

std::vector<Ref> backward_attention(const BlockContext& c, const AttentionTensors& t, Ref y1, Ref d_out) {
  c.builder.module("self_attention");
  const Ref d_core_out = c.builder.temporary("core_gradient", c.full_bytes(c.shapes.heads * c.shapes.v_dim));
  backward_linear(c, output_projection(c), t.core_out, d_out, d_core_out);
  const CoreGradients d = backward_core(c, t, d_core_out);
  return is_mla(c) ? backward_mla(c, t, d, y1) : backward_gqa(c, d, y1);
}

}  // namespace tidemark::graph_build
