#pragma once
// What the routed layers of a job look like to counts of rows per device.

#include <cstdint>
#include <vector>

#include "core/machine.h"
#include "core/result.h"
#include "core/site_load.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

struct LoadShape {
  std::vector<std::int64_t> layers;  ///< layers with experts, ascending; MTP modules follow the model's layers
  std::int64_t micro_batches = 0;
  std::int64_t devices = 0;  ///< of an expert group
  /// With hierarchical exchange: nodes that the group spans, and its devices in one. A device sends what the experts of
  /// its node get of its tokens and of those that it gathers. 1 and all: it sends the rows of its own tokens, the mean.
  std::int64_t nodes = 1, node_devices = 0;
  std::int64_t experts = 0;    ///< over all of them
  std::int64_t mean_rows = 0;  ///< of one device in one (layer, micro-batch) at load 1
  std::int64_t most_rows = 0;  ///< that can reach one device: every token sends as many of its top_k there as it holds
                               ///< experts
  [[nodiscard]] std::int64_t all_rows() const { return mean_rows * devices; }
  /// The physical worst: G * min(k, E / G) / k for G devices, E experts and top-k.
  [[nodiscard]] double most_load() const { return static_cast<double>(most_rows) / static_cast<double>(mean_rows); }
  double most_sent = 1;  ///< G / D * min(k, experts of a node) / k, for the node of fewest devices D
  [[nodiscard]] SiteLoad worst() const { return {most_load(), most_sent}; }
  /// What goes with the expert load `load` of a device, where nothing is known of the others: devices vary apart from
  /// each other, so the mean over a node varies less. It is not taken below 1.
  [[nodiscard]] SiteLoad with(double load) const;
  friend bool operator==(const LoadShape&, const LoadShape&) = default;
};

/// Errors (bad_input): no layer with experts.
[[nodiscard]] Result<LoadShape> load_shape(const JobSpec& job, const Machine& machine);

}  // namespace tidemark::graph_build
