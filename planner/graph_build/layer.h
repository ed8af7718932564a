#pragma once
// One decoder layer: norms, attention, MLP (dense or MoE) and the two residual sums.
//
//   sandwich   x1 = x + norm(attention(norm(x)))   out = x1 + norm(mlp(norm(x1)))
//   pre        x1 = x + attention(norm(x))         out = x1 + mlp(norm(x1))

#include "planner/graph_build/attention.h"
#include "planner/graph_build/moe.h"

namespace tidemark::graph_build {

struct LayerTensors {
  Ref x, y1, attention_out, x1, y2, mlp_out;
  AttentionTensors attention;
  MlpTensors dense;
  MoeTensors moe;
};

/// Emits x -> out. Recipes restore everything saved but x, which is the layer's checkpoint.
[[nodiscard]] LayerTensors forward_layer(const BlockContext& context, LayerKind kind, Ref x, Ref out);
/// Writes the gradient of x to `d_in`.
void backward_layer(const BlockContext& context, LayerKind kind, const LayerTensors& tensors, Ref d_out, Ref d_in);

}  // namespace tidemark::graph_build
