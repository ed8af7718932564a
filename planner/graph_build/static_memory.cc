#include "planner/graph_build/static_memory.h"

#include <algorithm>

#include "planner/graph_build/parameter_groups.h"

namespace tidemark::graph_build {
namespace {

/// Layer parameters of the whole model, and the part one token meets.
struct LayerCount {
  double total = 0;
  double active = 0;
};

LayerCount count_layer(const ModelSpec& model, LayerKind kind) {
  LayerCount count;
  for (const ParameterGroup& group : layer_parameters(model, ParallelSpec{}, kind)) {
    const auto elements = static_cast<double>(group.elements());
    count.total += elements;
    const double met = static_cast<double>(model.moe.top_k) / static_cast<double>(group.expert ? model.moe.experts : 1);
    count.active += group.expert ? elements * met : elements;
  }
  return count;
}

double matrix(std::int64_t rows, std::int64_t columns) {
  return static_cast<double>(rows) * static_cast<double>(columns);
}

/// Parameters of an MTP module besides its layer; the embedding and output matrices are shared with the model.
double mtp_projection(const ModelSpec& model) {
  return matrix(2 * model.hidden, model.hidden) + 3 * static_cast<double>(model.hidden);
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

ParameterCount count_parameters(const ModelSpec& model) {
  const double vocabulary = matrix(model.vocabulary, model.hidden);
  ParameterCount count;
  count.total = vocabulary + static_cast<double>(model.hidden);
  count.active = count.total;
  for (const LayerKind kind : model.layers) {
    const LayerCount layer = count_layer(model, kind);
    count.total += layer.total;
    count.active += layer.active;
  }
  count.total_both = count.total + (model.tied_embedding ? 0 : vocabulary);
  count.total_with_mtp = count.total_both;
  if (model.mtp_layers > 0) {
    const double module = count_layer(model, mtp_layer_kind(model)).total + mtp_projection(model);
    count.total_with_mtp += static_cast<double>(model.mtp_layers) * module;
  }
  return count;
}

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
      add(StorageRole::parameter, memory.parameter_bytes, elements * job.parallel.parameter_bytes);
      add(StorageRole::gradient, memory.gradient_bytes, elements * job.parallel.gradient_bytes);
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
    const double module = count_layer(model, mtp_layer_kind(model)).active + mtp_projection(model) + head;
    linear += 6 * static_cast<double>(model.mtp_layers) * module;
  }
  const HeadSizes sizes = head_sizes(model.attention);
  const double layers = static_cast<double>(model.layers.size()) + static_cast<double>(model.mtp_layers);
  const double square = 6 * matrix(model.sequence, model.attention.heads) * layers;
  return {.full_square = linear + square * 2 * sizes.query_key,
          .causal = linear + square / 2 * (sizes.query_key + sizes.value)};
}

}  // namespace tidemark::graph_build
