#pragma once
// Where blocks meet: the storages neighbours write, and the parameters that blocks at the end of the model share.

#include "planner/graph_build/block_context.h"
#include "planner/graph_build/step_block.h"

namespace tidemark::graph_build {

/// The block's input as a storage of its own, written by what comes before.
Ref declare_input(const BlockContext& context, StepBlock& block, const char* name);
/// The block's input where another block owns it.
Ref borrow_input(const BlockContext& context);
/// The gradient of the block's result: written by what follows, read as kOutputGradient.
Ref declare_output_gradient(const BlockContext& context, StepBlock& block);

void bind_ends(BlockBuilder& builder, const EndParameters& parameters);
/// Group that holds the output matrix, and the group an MTP module looks embeddings up in.
[[nodiscard]] const char* output_group(const EndParameters& parameters);
[[nodiscard]] const char* lookup_group(const EndParameters& parameters);

}  // namespace tidemark::graph_build
