#pragma once
// A mixture-of-experts MLP: router, dispatch, grouped expert products, combine, shared experts. Rows above a capacity
// are dropped where they are picked; they and the rows that fill a capacity up change loads alone
// (graph_build/load_shape.h). What scales with the expert load f is what this device's experts receive; rows of its own
// tokens scale with what it sends, which differs from the mean with hierarchical exchange only.
//
// In parts (ParallelSpec::expert_exchange_parts) what is done with rows is done for one part of the tokens after the
// other, so that one part travels while experts compute another. Tokens are gathered and sums scattered once.

#include <vector>

#include "planner/graph_build/block_context.h"
#include "planner/graph_build/mlp.h"

namespace tidemark::graph_build {

/// Of one part of the exchange.
struct RowTensors {
  Ref fc1_in, fc1_out, act_out;  ///< expert rows
  Ref unpermute_in;              ///< rows of this device's tokens; saved where probabilities are applied to them
};

struct MoeTensors {
  Ref router;  ///< logits, scores, probabilities and map: what routing is replayed from
  std::vector<RowTensors> parts;
  MlpTensors shared;
  Ref shared_out;  ///< where a gate scales it
};

/// Emits y2 -> out. Ops that end in `out` carry the recipe tag "mlp_out".
[[nodiscard]] MoeTensors forward_moe(const BlockContext& context, Ref y2, Ref out);
/// Returns the gradients that add up to the gradient of y2.
[[nodiscard]] std::vector<Ref> backward_moe(const BlockContext& context, const MoeTensors& tensors, Ref y2, Ref d_out);

}  // namespace tidemark::graph_build
