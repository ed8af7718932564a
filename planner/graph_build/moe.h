#pragma once
// A mixture-of-experts MLP without token dropping: router, dispatch, grouped expert products, combine, shared experts.
// What scales with the expert load f is what this device's experts receive; rows of its own tokens scale with what it
// sends, which differs from the mean with hierarchical exchange only.

#include <vector>

#include "planner/graph_build/block_context.h"
#include "planner/graph_build/mlp.h"

namespace tidemark::graph_build {

struct MoeTensors {
  Ref router;                    ///< logits, scores, probabilities and map: what routing is replayed from
  Ref fc1_in, fc1_out, act_out;  ///< expert rows
  Ref unpermute_in;              ///< rows of this device's tokens; saved where probabilities are applied to them
  MlpTensors shared;
};

/// Emits y2 -> out. Ops that end in `out` carry the recipe tag "mlp_out".
[[nodiscard]] MoeTensors forward_moe(const BlockContext& context, Ref y2, Ref out);
/// Returns the gradients that add up to the gradient of y2.
[[nodiscard]] std::vector<Ref> backward_moe(const BlockContext& context, const MoeTensors& tensors, Ref y2, Ref d_out);

}  // namespace tidemark::graph_build
