#pragma once
// What the routed layers of a job look like to counts of rows per device.

#include <algorithm>
#include <cstdint>
#include <optional>
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
  std::int64_t most_expert_rows = 0;  ///< that can reach one expert: of every token; 0: as many as a device
  std::int64_t capacity = 0;          ///< rows that a device takes at most, the others are dropped; 0: dropless
  bool pads = false;                  ///< it holds and computes that many, however few there are
  [[nodiscard]] std::int64_t all_rows() const { return mean_rows * devices; }
  /// Of rows that are routed to a device, those it holds and computes.
  [[nodiscard]] std::int64_t held(std::int64_t routed) const {
    return pads ? capacity : capacity > 0 ? std::min(routed, capacity) : routed;
  }
  /// The most that routing sends to a device: G * min(k, E / G) / k for G devices, E experts and top-k.
  [[nodiscard]] double most_routed_load() const {
    return static_cast<double>(most_rows) / static_cast<double>(mean_rows);
  }
  /// The most that a device holds: of dropless rows the same. That of a capacity as a Site holds it, so that memory
  /// planned for it is enough.
  [[nodiscard]] double most_load() const {
    const double most = static_cast<double>(held(most_rows)) / static_cast<double>(mean_rows);
    return capacity > 0 ? static_cast<double>(static_cast<float>(most)) : most;
  }
  /// The load of a device that rows are routed to.
  [[nodiscard]] double load_of(std::int64_t routed) const {
    if (capacity > 0 && held(routed) == capacity) return most_load();
    return static_cast<double>(routed) / static_cast<double>(mean_rows);
  }
  /// The load of a device that is asked to hold memory for `load`, where a capacity leaves no choice.
  [[nodiscard]] std::optional<double> fixed_load(double load) const {
    return pads || (capacity > 0 && most_load() <= load) ? std::optional(most_load()) : std::nullopt;
  }
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
