#include <algorithm>

#include "planner/graph_build/block_context.h"
#include "planner/graph_build/op_cost.h"
#include "planner/graph_build/step_block.h"

namespace tidemark::graph_build {
namespace {

std::int64_t reduction_ranks(const ParallelSpec& parallel, bool expert) {
  return expert ? std::max<std::int64_t>(1, parallel.expert_data()) : std::int64_t{parallel.data} * parallel.context;
}

/// Bytes this device sends in a ring reduce-scatter or all-gather of `bytes` over `ranks`.
double ring_bytes(Bytes bytes, std::int64_t ranks) {
  return static_cast<double>(bytes) * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

const GroupShape& replicas(const BlockInput& input, const ParameterGroup& group) {
  return group.expert ? input.shapes.expert_data_group : input.shapes.data_group;
}

void reduce_gradients(const BlockContext& c, const BlockInput& input, const ParameterGroup& group) {
  const ParallelSpec& parallel = input.job.parallel;
  const std::int64_t ranks = reduction_ranks(parallel, group.expert);
  if (ranks == 1 || parallel.sharded_gradients) return;  // reduced for every micro-batch
  const double once = ring_bytes(group.elements() * parallel.gradient_bytes, ranks);
  const bool scatters = parallel.distributed_optimizer;
  const Ref gradient = c.builder.gradient(group.name);
  c.builder.op(OpPhase::gradient_reduction,
               {.name = "gradient." + group.name + (scatters ? "_reduce_scatter" : "_all_reduce"),
                .lane = input.shapes.data_lane,
                .cost = ring_cost(scatters ? once : 2 * once, replicas(input, group)),
                .collective = true,
                .reads = {gradient},
                .writes = {gradient}});
}

void gather_parameters(const BlockContext& c, const BlockInput& input, const ParameterGroup& group) {
  const ParallelSpec& parallel = input.job.parallel;
  const std::int64_t ranks = reduction_ranks(parallel, group.expert);
  if (ranks == 1 || !parallel.distributed_optimizer || parallel.sharded_parameters) return;
  const Ref parameter = c.builder.parameter(group.name);
  c.builder.op(OpPhase::optimizer, {.name = "parameter." + group.name + "_all_gather",
                                    .lane = input.shapes.data_lane,
                                    .cost = ring_cost(ring_bytes(group.elements() * parallel.parameter_bytes, ranks),
                                                      replicas(input, group)),
                                    .collective = true,
                                    .reads = {parameter},
                                    .writes = {parameter}});
}

/// Elements of a group that another rank holds, too: embedding matrices on the first and the last rank, output matrices
/// of heads on different ranks. They are kept equal by summing their gradients.
std::int64_t twin_elements(const JobSpec& job, const ParameterSite& site, const ParameterGroup& group) {
  if (job.parallel.pipeline == 1) return 0;
  const ModelSpec& model = job.model;
  if (group.name == "embedding") return model.tied_embedding || model.mtp_layers > 0 ? group.elements() : 0;
  if (site.kind != ParameterSite::Kind::head) return 0;
  const bool is_copied = job.parallel.main_head_stage() % job.parallel.pipeline != job.parallel.pipeline - 1;
  if (!model.tied_embedding && !is_copied) return 0;
  std::int64_t elements = 0;
  for (const ParameterTensor& tensor : group.tensors)
    if (tensor.name == kOutputMatrix) elements += tensor.elements;
  return elements;
}

/// Ends of a pipeline, in nodes of their own.
constexpr GroupShape kTwins{.ranks = 2, .per_node = 1, .pattern = GroupShape::Pattern::ring};

void reduce_twin(const BlockContext& c, const BlockInput& input, const ParameterGroup& group, std::int64_t elements) {
  const ParallelSpec& parallel = input.job.parallel;
  const std::int64_t shards = parallel.sharded_gradients ? optimizer_shards(parallel, group.expert) : 1;
  const Ref gradient = c.builder.gradient(group.name);
  c.builder.op(OpPhase::gradient_reduction, {.name = "gradient." + group.name + "_twin_all_reduce",
                                             .lane = Lane::inter_comm,
                                             .cost = ring_cost(elements * parallel.gradient_bytes / shards, kTwins),
                                             .collective = true,
                                             .reads = {gradient},
                                             .writes = {gradient}});
}

/// Largest piece of one parameter tensor inside this device's optimizer shard, in fp32: what the update holds besides
/// its state.
Bytes update_scratch_bytes(const ParallelSpec& parallel, const std::vector<ParameterGroup>& groups) {
  std::int64_t largest = 0;
  for (const ParameterGroup& group : groups) {
    const std::int64_t shards = optimizer_shards(parallel, group.expert);
    const std::int64_t shard = (group.elements() + shards - 1) / shards;
    largest = std::max(largest, std::min(shard, group.largest_tensor()));
  }
  return 4 * largest;
}

void update_parameters(const BlockContext& c, const BlockInput& input, const std::vector<ParameterGroup>& groups,
                       Ref scratch) {
  const ParallelSpec& parallel = input.job.parallel;
  OpDraft draft{.name = "optimizer.update", .writes = {scratch}};
  double bytes = 0;
  for (const ParameterGroup& group : groups) {
    const std::int64_t shards = optimizer_shards(parallel, group.expert);
    // Gradient read, state read and written, parameter written.
    const double per_element = parallel.gradient_bytes + 2 * parallel.optimizer_bytes + parallel.parameter_bytes;
    bytes += static_cast<double>(group.elements()) / static_cast<double>(shards) * per_element;
    draft.reads.push_back(c.builder.gradient(group.name));
    draft.reads.push_back(c.builder.optimizer_state(group.name));
    draft.writes.push_back(c.builder.optimizer_state(group.name));
    draft.writes.push_back(c.builder.parameter(group.name));
  }
  draft.cost = {.kind = WorkKind::vector, .memory_bytes = bytes};
  c.builder.op(OpPhase::optimizer, std::move(draft));
}

}  // namespace

StepBlock make_parameter_block(const BlockInput& input, const ParameterSite& site) {
  static constexpr const char* kNames[] = {"embedding", "dense_layer", "moe_layer", "mtp", "head"};
  BlockBuilder b(std::string(kNames[static_cast<std::size_t>(site.kind)]) + "_parameters", false);
  const BlockContext c{b, input.shapes, input.job.model};
  const ParallelSpec& parallel = input.job.parallel;
  b.bind_parameters(Scope::parameters, site.groups);
  for (const ParameterGroup& group : site.groups) {
    b.module(group.module_path);
    b.fixed(group.name + ".parameters", StorageRole::parameter, parameter_state_bytes(parallel, group));
    b.fixed(group.name + ".gradients", StorageRole::gradient, gradient_state_bytes(parallel, group));
    b.fixed(group.name + ".optimizer_state", StorageRole::optimizer_state,
            optimizer_state_bytes(parallel, group.elements(), group.expert));
  }
  b.module("optimizer");
  const Ref scratch = b.temporary("update_scratch", update_scratch_bytes(parallel, site.groups));
  for (const ParameterGroup& group : site.groups) {
    reduce_gradients(c, input, group);
    if (const std::int64_t elements = twin_elements(input.job, site, group); elements > 0)
      reduce_twin(c, input, group, elements);
  }
  update_parameters(c, input, site.groups, scratch);
  for (const ParameterGroup& group : site.groups) gather_parameters(c, input, group);
  return {.program = b.finish(input.graph)};
}

}  // namespace tidemark::graph_build
