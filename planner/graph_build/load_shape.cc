#include "planner/graph_build/load_shape.h"

#include <algorithm>
#include <cmath>

#include "planner/graph_build/device_shapes.h"

namespace tidemark::graph_build {

Result<LoadShape> load_shape(const JobSpec& job, const Machine& machine) {
  LoadShape shape{.micro_batches = job.parallel.micro_batches(),
                  .devices = job.parallel.expert_ranks(),
                  .experts = job.model.moe.experts};
  std::vector<LayerKind> kinds = job.model.layers;
  if (!kinds.empty()) kinds.resize(kinds.size() + static_cast<std::size_t>(job.model.mtp_layers), kinds.back());
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i] == LayerKind::moe) shape.layers.push_back(static_cast<std::int64_t>(i));
  if (shape.layers.empty()) return bad_input("the job has no layer with experts, so no load changes it");
  const DeviceShapes device = device_shapes(job, machine);
  shape.mean_rows = device.expert_rows;
  const std::int64_t top_k = job.model.moe.top_k;
  shape.node_devices = shape.devices;
  if (device.expert_group.hierarchical) {
    shape.nodes = device.expert_group.nodes;
    shape.node_devices = device.expert_group.per_node;
    const std::int64_t last_node = shape.devices - (shape.nodes - 1) * shape.node_devices;
    for (const std::int64_t devices : {shape.node_devices, last_node}) {
      const std::int64_t experts = shape.experts / shape.devices * devices;
      shape.most_sent = std::max(shape.most_sent, static_cast<double>(shape.devices * std::min(top_k, experts)) /
                                                      static_cast<double>(devices * top_k));
    }
  }
  shape.most_expert_rows = shape.all_rows() / top_k;
  shape.most_rows = shape.most_expert_rows * std::min(top_k, shape.experts / shape.devices);
  shape.capacity = device.capacity;
  shape.pads = job.model.moe.pads();
  if (shape.capacity > 0)
    shape.most_sent = shape.pads ? shape.most_load() : std::min(shape.most_sent, std::max(1.0, shape.most_load()));
  return shape;
}

SiteLoad LoadShape::with(double load) const {
  if (pads) return worst();
  if (nodes == 1) return load;
  const double node = 1 + (load - 1) / std::sqrt(static_cast<double>(node_devices));
  return {load, std::clamp(node, 1.0, most_sent)};
}

}  // namespace tidemark::graph_build
