#pragma once
// Self-attention of one layer: grouped-query, or multi-head latent attention (MLA) as in DeepSeek-V3 and Pangu Ultra
// MoE. The core is a flash kernel: it saves its output and the softmax statistics, never scores.

#include <string>
#include <vector>

#include "planner/graph_build/block_context.h"

namespace tidemark::graph_build {

/// What the backward pass reads. Refs that a kind of attention has no use for are left at their default.
struct AttentionTensors {
  Ref latent, latent_q_norm, latent_kv_norm;  ///< MLA
  Ref q, k, v;                                ///< v: the storage that holds V, its own or one it is a view of
  Ref core_out, statistics;
  Ref projected;  ///< what the output projection reads: core_out, or its 8-bit copy
};

/// Emits everything from `y1` to the output projection into `out`, whose ops carry the recipe tag `output_tag`.
[[nodiscard]] AttentionTensors forward_attention(const BlockContext& context, Ref y1, Ref out,
                                                 const std::string& output_tag);
/// Returns the gradients that add up to the gradient of y1.
[[nodiscard]] std::vector<Ref> backward_attention(const BlockContext& context, const AttentionTensors& tensors, Ref y1,
                                                  Ref d_out);

}  // namespace tidemark::graph_build
