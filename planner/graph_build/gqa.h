#pragma once
// Grouped-query attention up to its kernel: one projection to queries, keys and values, rotary embedding, split.

#include <vector>

#include "planner/graph_build/attention_core.h"

namespace tidemark::graph_build {

/// Fills q, k and v.
[[nodiscard]] AttentionTensors forward_gqa(const BlockContext& context, Ref y1);
[[nodiscard]] std::vector<Ref> backward_gqa(const BlockContext& context, const AttentionTensors& tensors,
                                            const CoreGradients& gradients, Ref y1);

}  // namespace tidemark::graph_build
