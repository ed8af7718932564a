#include "planner/graph_build/static_memory.h"

#include <algorithm>

#include "planner/graph_build/attention_length.h"
#include "planner/graph_build/parameter_groups.h"

namespace tidemark::graph_build {
namespace {

double matrix(std::int64_t rows, std::int64_t columns) {
  return static_cast<double>(rows) * static_cast<double>(columns);
}

struct HeadSizes {
  double query_key = 0;
  double value = 0;
};

HeadSizes head_sizes(const AttentionSpec& a) {
  if (a.kind == AttentionSpec::Kind::gqa) {
    return {.query_key = static_cast<double>(a.head_dim), .value = static_cast<double>(a.head_dim)};
  }
  return {.query_key = static_cast<double>(a.qk_nope_dim + a.qk_rope_dim), .value = static_cast<double>(a.v_head_dim)};
}

}  // namespace

Bytes StaticMemory::least_device_bytes(Bytes host_bytes) const {
  return total() - offloadable_bytes + std::max(offloadable_bytes - host_bytes, largest_update_bytes);
}

StaticMemory static_memory(const JobSpec& job, std::int32_t rank) {
  StaticMemory memory;
  for (const ParameterSite& site : rank_parameters(job, rank)) {
    Bytes update = 0;  // one op updates a whole site
    const auto add = [&](StorageRole role, Bytes& sum, Bytes bytes) {
      sum += bytes;
      if (may_be_offloaded(role)) update += bytes;
    };
    for (const ParameterGroup& group : site.groups) {
      const std::int64_t elements = group.elements();
      (group.expert ? memory.expert_parameters : memory.dense_parameters) += elements;
      add(StorageRole::parameter, memory.parameter_bytes, parameter_state_bytes(job.parallel, group));
      add(StorageRole::gradient, memory.gradient_bytes, gradient_state_bytes(job.parallel, group));
      add(StorageRole::optimizer_state, memory.optimizer_bytes,
          optimizer_state_bytes(job.parallel, elements, group.expert));
    }
    memory.offloadable_bytes += update;
    memory.largest_update_bytes = std::max(memory.largest_update_bytes, update);
  }
  return memory;
}

ReserveMemory reserve_memory(const Machine& machine, const ParallelSpec& parallel) {
  return {.context_bytes = machine.context_bytes,
          .workspace_bytes = machine.workspace_bytes,
          .collective_bytes = machine.collective_buffer_bytes * parallel.communicators,
          .framework_bytes = parallel.framework_bytes};
}

ReserveMemory reserve_memory(const Machine& machine) {
  return {.context_bytes = machine.context_bytes, .workspace_bytes = machine.workspace_bytes};
}

TokenFlops flops_per_token(const ModelSpec& model) {
  const ParameterCount count = count_parameters(model);
  double linear = 6 * count.active;
  if (model.mtp_layers > 0) {
    const double head = matrix(model.vocabulary, model.hidden);
    const double module = count_layer(model, mtp_layer_kind(model)).active + count_mtp_join(model) + head;
    linear += 6 * static_cast<double>(model.mtp_layers) * module;
  }
  const HeadSizes sizes = head_sizes(model.attention);
  double keys = 0;  // a token attends to in one square after the other
  for (std::size_t layer = 0; layer < model.layers.size() + static_cast<std::size_t>(model.mtp_layers); ++layer)
    keys += attended_length(model, model.is_windowed(layer));
  const double square = 6 * static_cast<double>(model.attention.heads) * keys;
  return {.full_square = linear + square * 2 * sizes.query_key,
          .causal = linear + square / 2 * (sizes.query_key + sizes.value)};
}

}  // namespace tidemark::graph_build
