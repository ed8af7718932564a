#include "planner/graph_build/block_ends.h"

#include <algorithm>

namespace tidemark::graph_build {
namespace {

bool has_group(const std::vector<ParameterGroup>& groups, const char* name) {
  return std::ranges::find(groups, name, &ParameterGroup::name) != groups.end();
}

}  // namespace

Ref declare_input(const BlockContext& c, StepBlock& block, const char* name) {
  c.builder.module("layer");
  const Ref x = c.builder.saved(name, c.local_bytes(c.model.hidden));
  c.builder.written_elsewhere(x);
  block.input = x.local;
  return x;
}

Ref borrow_input(const BlockContext& c) {
  c.builder.written_elsewhere(kInput);
  return kInput;
}

Ref declare_output_gradient(const BlockContext& c, StepBlock& block) {
  const Ref gradient = c.builder.temporary("output_gradient", c.local_bytes(c.model.hidden));
  block.output_gradient = gradient.local;
  return gradient;
}

void bind_ends(BlockBuilder& b, const EndParameters& parameters) {
  b.bind_parameters(Scope::parameters, parameters.own);
  b.bind_parameters(Scope::head_parameters, parameters.head);
  b.bind_parameters(Scope::embedding_parameters, parameters.embedding);
}

const char* output_group(const EndParameters& parameters) {
  if (parameters.head.empty()) return "embedding";
  const std::vector<ParameterTensor>& tensors = parameters.head.front().tensors;
  const bool own_matrix = std::ranges::find(tensors, kOutputMatrix, &ParameterTensor::name) != tensors.end();
  return own_matrix ? "head" : "embedding";
}

const char* lookup_group(const EndParameters& parameters) {
  // A tied model on its last rank looks embeddings up in the head's matrix.
  return has_group(parameters.own, "embedding") || has_group(parameters.embedding, "embedding") ? "embedding" : "head";
}

}  // namespace tidemark::graph_build
