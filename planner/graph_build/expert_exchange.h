#pragma once
// How rows travel between expert ranks. Two levels (hierarchical):
//
//   dispatch  tokens of all nodes are gathered between nodes; rows for the experts of this node are picked out of them
//             and exchanged inside the node
//   combine   rows go back inside the node, are summed per token of the node, and reduce-scattered between nodes
//
// Flat: one all-to-all of rows, its share inside the node and its share between nodes as two ops. Experts split by
// tensor parallelism gather the received rows over the tensor group, and reduce what they return.

#include <string>

#include "planner/graph_build/block_context.h"

namespace tidemark::graph_build {

/// Rows move at all.
[[nodiscard]] bool exchanges_rows(const DeviceShapes& shapes);

/// Tokens of all nodes ([nodes * t, h]), or `tokens` itself without hierarchy.
[[nodiscard]] Ref gather_nodes(const BlockContext& context, OpPhase phase, const std::string& name, Ref tokens);
/// The reverse sum, into `out`. REQUIRES: hierarchical.
void reduce_nodes(const BlockContext& context, OpPhase phase, const std::string& name, Ref sums, Ref out);

/// Sends the rows of this device's tokens to their experts and returns what the experts of this device process
/// ([f * rows, h], unsorted).
[[nodiscard]] Ref rows_to_experts(const BlockContext& context, OpPhase phase, const std::string& name, Ref rows);
/// The reverse, into `out` ([rows, h]).
void rows_to_tokens(const BlockContext& context, OpPhase phase, const std::string& name, Ref rows, Ref out);

}  // namespace tidemark::graph_build
