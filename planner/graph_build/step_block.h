#pragma once
// The blocks a step is put together from, each with the storages its neighbours meet.

#include <vector>

#include "planner/graph_build/block_builder.h"
#include "planner/graph_build/device_shapes.h"
#include "planner/graph_build/job_spec.h"
#include "planner/graph_build/parameter_groups.h"

namespace tidemark::graph_build {

struct StepBlock {
  BlockProgram program;
  std::int32_t input = -1;            ///< local storage that receives the block's input; -1: owned by another block
  std::int32_t output_gradient = -1;  ///< local storage that receives the gradient of its result; -1: has none
  std::int32_t result = -1;           ///< local storage that holds its result, where it owns it (MTP)
  bool routed = false;                ///< sizes depend on expert load
  std::int32_t gathers = 0;           ///< forward ops, the first ones, that gather its weights
};

/// What every block is built from.
struct BlockInput {
  Graph& graph;
  const JobSpec& job;
  const DeviceShapes& shapes;
};

/// Which parameters a block at the end of the model finds where.
struct EndParameters {
  std::vector<ParameterGroup> own;        ///< of the MTP module; empty for the head
  std::vector<ParameterGroup> embedding;  ///< of this rank, if it holds the embedding
  std::vector<ParameterGroup> head;
};

/// `windowed`: its attention is of the model's window.
[[nodiscard]] StepBlock make_layer_block(const BlockInput& input, LayerKind kind, bool windowed);
[[nodiscard]] StepBlock make_embedding_block(const BlockInput& input);
struct HeadPosition {
  bool owns_input = true;       ///< no MTP module in front of it has the trunk's output already
  bool has_next_stage = false;  ///< that output is sent on; its gradient from there has come when the head adds its own
};
[[nodiscard]] StepBlock make_head_block(const BlockInput& input, const EndParameters& parameters,
                                        HeadPosition position);
/// The first module reads the trunk's output, which it then owns; each later one reads the result of the module before,
/// besides that module's own head.
struct MtpPosition {
  bool first = true;
  bool last = true;
  bool beside_head = true;  ///< of the first: the main head reads the same and runs its backward pass before it
};
[[nodiscard]] StepBlock make_mtp_block(const BlockInput& input, const EndParameters& parameters, MtpPosition position);
/// A message buffer of one micro-batch's tokens.
[[nodiscard]] StepBlock make_buffer_block(const BlockInput& input, const char* name);

/// Parameters, gradients and optimizer state of one static site. Its backward program holds the end of the step:
/// gradient reductions, the update, and the gathering of updated parameters.
[[nodiscard]] StepBlock make_parameter_block(const BlockInput& input, const ParameterSite& site);

}  // namespace tidemark::graph_build
