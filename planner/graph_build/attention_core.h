#pragma once
// The attention kernel itself, with the exchange of keys and values between context-parallel ranks.

#include <vector>

#include "planner/graph_build/attention.h"

namespace tidemark::graph_build {

/// Gradients of the kernel's inputs, in the shapes of q, k and v.
struct CoreGradients {
  Ref q, k, v;
};

/// Fills core_out and statistics from q, k and v.
void forward_core(const BlockContext& context, AttentionTensors& tensors);
[[nodiscard]] CoreGradients backward_core(const BlockContext& context, const AttentionTensors& tensors, Ref d_core_out);

}  // namespace tidemark::graph_build
