#include "planner/graph_build/step_block.h"

#include "planner/graph_build/block_ends.h"
#include "planner/graph_build/layer.h"
#include "planner/graph_build/vocabulary.h"

namespace tidemark::graph_build {
StepBlock make_layer_block(const BlockInput& input, LayerKind kind) {
  const bool moe = kind == LayerKind::moe;
  BlockBuilder b(moe ? "moe_layer" : "dense_layer", input.shapes.late_weight_gradients);
  const BlockContext c{b, input.shapes, input.job.model};
  b.bind_parameters(Scope::parameters, layer_parameters(input.job.model, input.job.parallel, kind));
  StepBlock block{.routed = moe};
  const Ref x = declare_input(c, block, "x");
  declare_output_gradient(c, block);
  const LayerTensors tensors = forward_layer(c, kind, x, kOutput);
  backward_layer(c, kind, tensors, kOutputGradient, kInputGradient);
  block.program = b.finish(input.graph);
  return block;
}

StepBlock make_embedding_block(const BlockInput& input) {
  BlockBuilder b("embedding", input.shapes.late_weight_gradients);
  const BlockContext c{b, input.shapes, input.job.model};
  for (const ParameterSite& site : rank_parameters(input.job, 0)) {
    if (site.kind == ParameterSite::Kind::embedding) b.bind_parameters(Scope::parameters, site.groups);
  }
  StepBlock block;
  b.module("embedding");
  declare_output_gradient(c, block);
  forward_lookup(c, "embedding", kOutput);
  backward_lookup(c, "embedding", kOutputGradient);
  block.program = b.finish(input.graph);
  return block;
}

StepBlock make_head_block(const BlockInput& input, const EndParameters& parameters, HeadPosition position) {
  BlockBuilder b("head", input.shapes.late_weight_gradients);
  const BlockContext c{b, input.shapes, input.job.model};
  bind_ends(b, parameters);
  StepBlock block;
  const Ref x = position.owns_input ? declare_input(c, block, "x") : borrow_input(c);
  const Head head{.prefix = "head", .norm_group = "head", .output_group = output_group(parameters)};
  const HeadTensors tensors = forward_head(c, head, x);
  std::vector<Ref> from_next;
  if (position.has_next_stage) {
    b.written_elsewhere(kInputGradient);
    from_next.push_back(kInputGradient);
  }
  backward_head(c, head, tensors, x, kInputGradient, from_next);
  block.program = b.finish(input.graph);
  return block;
}

StepBlock make_buffer_block(const BlockInput& input, const char* name) {
  BlockBuilder b(name, false);
  const BlockContext c{b, input.shapes, input.job.model};
  b.module("pipeline");
  StepBlock block;
  block.input = b.buffer(name, c.local_bytes(c.model.hidden)).local;
  block.program = b.finish(input.graph);
  return block;
}

}  // namespace tidemark::graph_build
