#pragma once
// Multi-head latent attention up to its kernel: a replicated down-projection to latents, norms on the latents, and
// up-projections to per-head queries, keys and values.
//
//   y1 -> latent [q | kv | rope key] -> norms -> gathered over tensor ranks -> q_up, kv_up -> rotary, concatenation

#include <vector>

#include "planner/graph_build/attention_core.h"

namespace tidemark::graph_build {

/// Fills latents, q, k and v.
[[nodiscard]] AttentionTensors forward_mla(const BlockContext& context, Ref y1);
/// Gradients that add up to that of y1.
[[nodiscard]] std::vector<Ref> backward_mla(const BlockContext& context, const AttentionTensors& tensors,
                                            const CoreGradients& gradients, Ref y1);

}  // namespace tidemark::graph_build
