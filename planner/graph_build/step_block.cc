#include "planner/graph_build/step_block.h"

#include "planner/graph_build/attention_length.h"
#include "planner/graph_build/block_ends.h"
#include "planner/graph_build/layer.h"
#include "planner/graph_build/parameter_sharding.h"
#include "planner/graph_build/vocabulary.h"

namespace tidemark::graph_build {
namespace {

std::string layer_name(LayerKind kind, bool windowed) {
  const std::string name = kind == LayerKind::moe ? "moe_layer" : "dense_layer";
  return windowed ? "windowed_" + name : name;
}

}  // namespace

StepBlock make_layer_block(const BlockInput& input, LayerKind kind, bool windowed) {
  BlockBuilder b(layer_name(kind, windowed), input.shapes.late_weight_gradients);
  DeviceShapes shapes = input.shapes;
  shapes.attended_length = attended_length(input.job.model, windowed);
  const BlockContext c{b, shapes, input.job.model};
  const std::vector<ParameterGroup> groups = layer_parameters(input.job.model, input.job.parallel, kind);
  b.bind_parameters(Scope::parameters, groups);
  StepBlock block{.routed = kind == LayerKind::moe};
  const Ref x = declare_input(c, block, "x");
  declare_output_gradient(c, block);
  ShardedWeights weights(c, input.job.parallel, groups);
  block.gathers = weights.gathers();
  const LayerTensors tensors = forward_layer(c, kind, x, kOutput);
  weights.begin_backward();
  backward_layer(c, kind, tensors, kOutputGradient, kInputGradient);
  weights.reduce_gradients();
  block.program = b.finish(input.graph);
  return block;
}

StepBlock make_embedding_block(const BlockInput& input) {
  BlockBuilder b("embedding", input.shapes.late_weight_gradients);
  const BlockContext c{b, input.shapes, input.job.model};
  std::vector<ParameterGroup> groups;
  for (const ParameterSite& site : rank_parameters(input.job, 0)) {
    if (site.kind == ParameterSite::Kind::embedding) groups = site.groups;
  }
  b.bind_parameters(Scope::parameters, groups);
  StepBlock block;
  b.module("embedding");
  declare_output_gradient(c, block);
  ShardedWeights weights(c, input.job.parallel, groups);
  block.gathers = weights.gathers();
  b.module("embedding");
  forward_lookup(c, "embedding", kOutput);
  weights.begin_backward();
  b.module("embedding");
  backward_lookup(c, "embedding", kOutputGradient);
  weights.reduce_gradients();
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
  ShardedWeights weights(c, input.job.parallel, used_groups(parameters, {head.norm_group, head.output_group}));
  block.gathers = weights.gathers();
  const HeadTensors tensors = forward_head(c, head, x);
  std::vector<Ref> from_next;
  if (position.has_next_stage) {
    b.written_elsewhere(kInputGradient);
    from_next.push_back(kInputGradient);
  }
  weights.begin_backward();
  backward_head(c, head, tensors, x, kInputGradient, from_next);
  weights.reduce_gradients();
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
