#include "planner/graph_build/device_shapes.h"

#include <algorithm>

#include "planner/graph_build/attention_length.h"
#include "planner/graph_build/dropped_rows.h"

namespace tidemark::graph_build {
namespace {

/// Intra-node while a group of `span` neighbouring devices fits in a node.
Lane lane_of(std::int64_t span, std::int64_t devices_per_node) {
  return span <= devices_per_node ? Lane::intra_comm : Lane::inter_comm;
}

/// Of `ranks` ranks that are `stride` devices apart.
GroupShape ring_group(std::int64_t ranks, std::int64_t stride, std::int64_t devices_per_node) {
  const std::int64_t room = std::max<std::int64_t>(1, devices_per_node / std::max<std::int64_t>(1, stride));
  return {.ranks = ranks, .per_node = std::min(ranks, room), .pattern = GroupShape::Pattern::ring};
}

ExpertGroup expert_group(const ParallelSpec& parallel, std::int64_t devices_per_node) {
  ExpertGroup group{.ranks = parallel.expert_ranks()};
  // Without extension expert ranks are `tensor` devices apart.
  const std::int64_t stride = parallel.tensor_extends_expert ? 1 : parallel.tensor;
  group.per_node = std::clamp<std::int64_t>(devices_per_node / stride, 1, group.ranks);
  group.nodes = (group.ranks + group.per_node - 1) / group.per_node;
  group.hierarchical = parallel.hierarchical_expert_communication && group.nodes > 1;
  return group;
}

void fill_attention(const AttentionSpec& a, int statistics_width, DeviceShapes& s) {
  s.heads = a.heads / s.tensor;
  // Norms of queries and keys keep the projection's output, of which values then stay a view.
  s.v_own_storage = (a.v_own_storage || a.v_padded) && !a.qk_norm;
  if (a.kind == AttentionSpec::Kind::gqa) {
    s.kv_heads = std::max<std::int64_t>(1, a.kv_heads / s.tensor);
    s.qk_dim = s.v_dim = s.v_stored_dim = a.head_dim;
  } else {
    s.kv_heads = s.heads;
    s.qk_dim = a.qk_nope_dim + a.qk_rope_dim;
    s.v_stored_dim = a.v_padded ? s.qk_dim : a.v_head_dim;
    s.v_dim = a.v_head_dim;
  }
  // One log-sum-exp, or maximum and sum replicated over the vector width.
  s.statistics_bytes_per_row = statistics_width > 1 ? std::int64_t{2} * statistics_width * 4 : 4;
}

void fill_experts(const ModelSpec& model, const ParallelSpec& parallel, DeviceShapes& s) {
  if (model.moe.experts == 0) return;
  s.experts_split = !parallel.tensor_extends_expert && parallel.tensor > 1;
  s.sent_rows = s.local_tokens * model.moe.top_k;
  s.expert_rows = s.experts_split ? s.tokens * model.moe.top_k : s.sent_rows;
  s.local_experts = model.moe.experts / parallel.expert_ranks();
  s.expert_width = s.experts_split ? model.moe.width / s.tensor : model.moe.width;
  if (!model.moe.drops()) return;
  const std::int64_t ranks = parallel.expert_ranks(), all = s.expert_rows * ranks;
  s.capacity = model.moe.capacity_level == MoeSpec::CapacityLevel::device
                   ? capacity_of(model.moe.capacity_factor, all, ranks)
                   : s.local_experts * capacity_of(model.moe.capacity_factor, all, model.moe.experts);
  if (model.moe.pads()) s.padding = static_cast<double>(s.capacity) / static_cast<double>(s.expert_rows);
}

}  // namespace

DeviceShapes device_shapes(const JobSpec& job, const Machine& machine) {
  const ModelSpec& model = job.model;
  const ParallelSpec& parallel = job.parallel;
  const std::int64_t per_node = std::max<std::int64_t>(1, machine.devices_per_node());
  DeviceShapes s;
  s.hidden = model.hidden;
  s.sequences = parallel.micro_batch;
  s.sequence = model.sequence;
  s.attended_length = attended_length(model, false);
  s.tokens = model.sequence * parallel.micro_batch / parallel.context;
  s.tensor = parallel.tensor;
  s.context = parallel.context;
  s.sequence_parallel = parallel.sequence_parallel;
  s.local_tokens = s.gathers() ? s.tokens / s.tensor : s.tokens;
  s.fp8 = parallel.compute == ParallelSpec::Compute::fp8;
  s.late_weight_gradients = parallel.overlap_forward_backward;
  s.tensor_lane = lane_of(s.tensor, per_node);
  s.context_lane = lane_of(s.tensor * s.context, per_node);
  s.data_lane = lane_of(s.tensor * s.context * parallel.data, per_node);
  s.tensor_group = ring_group(s.tensor, 1, per_node);
  s.context_group = ring_group(s.context, s.tensor, per_node);
  s.data_group = ring_group(std::int64_t{parallel.data} * s.context, s.tensor, per_node);
  const std::int64_t expert_stride = parallel.expert_ranks() * (parallel.tensor_extends_expert ? 1 : s.tensor);
  s.expert_data_group = ring_group(std::max<std::int64_t>(1, parallel.expert_data()), expert_stride, per_node);
  s.sends_inside_node = s.tensor * s.context * parallel.data < per_node;
  s.vocabulary = (model.vocabulary + s.tensor - 1) / s.tensor;
  fill_attention(model.attention, machine.softmax_statistics_width, s);
  fill_experts(model, parallel, s);
  s.expert_group = expert_group(parallel, per_node);
  s.node_group = ring_group(s.expert_group.nodes, per_node, per_node);
  s.exchange_parts = parallel.expert_exchange_parts;
  return s;
}

DeviceShapes shapes_of_part(const DeviceShapes& shapes, std::int32_t part) {
  const auto share = [&](std::int64_t whole) {
    return whole * (part + 1) / shapes.exchange_parts - whole * part / shapes.exchange_parts;
  };
  DeviceShapes s = shapes;
  const std::int64_t top_k = s.sent_rows / s.local_tokens;
  s.local_tokens = share(s.local_tokens);
  s.tokens = s.gathers() ? s.local_tokens * s.tensor : s.local_tokens;
  s.sent_rows = s.local_tokens * top_k;
  s.expert_rows = s.experts_split ? s.tokens * top_k : s.sent_rows;
  return s;
}

}  // namespace tidemark::graph_build
