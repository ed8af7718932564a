#pragma once
// Rows that a capacity drops. Who takes at most so many rows, an expert or a device, is a *holder*; rows of one (layer,
// micro-batch) are shared by all holders of an expert group, and so is the capacity:
//
//   C = ceil(capacity factor * rows / holders)        dropped = sum over holders of (rows of the holder - C)+
//
// Counted or modelled. The load model (load_model.h) knows devices. Of experts it says: what varies by layer or by
// site is the mean of the n experts of a device, which are taken to vary apart from each other. Beside what the device
// shows, v, an expert then shows (n - 1) v G / (G - 1): of G devices that share their rows, v is (G - 1) / G of what
// they vary by on their own. What is common to a device over its layers is common to its experts. With all experts of a
// device alike as many are dropped as of the device: no spread of its rows over its experts drops fewer.
//
// A framework that applies the capacity to the rows of each sender apart (Megatron-LM) drops as many or more: the sum
// of (x - c)+ over senders is no less than that of the sums.

#include <cstdint>
#include <span>

#include "planner/graph_build/load_model.h"

namespace tidemark::graph_build {

/// C of `rows` shared by `holders`. Factors are decimals (1.1 * 1000 is 1100): what is above a whole number by less
/// than a part in 10^12 is that number. REQUIRES: factor > 0; holders >= 1.
[[nodiscard]] std::int64_t capacity_of(double factor, std::int64_t rows, std::int64_t holders);

struct DroppedRows {
  std::int64_t routed = 0, dropped = 0;
  /// In [0, 1).
  [[nodiscard]] double share() const {
    return routed > 0 ? static_cast<double>(dropped) / static_cast<double>(routed) : 0;
  }
  friend bool operator==(const DroppedRows&, const DroppedRows&) = default;
};

/// Adds one (layer, micro-batch): the rows of each count, of which `counts_per_holder` that follow each other belong to
/// one holder. REQUIRES: a whole number of holders.
void add_dropped(std::span<const std::int64_t> counts, std::int64_t counts_per_holder, double factor,
                 DroppedRows& dropped);

/// E[(f - c)+] / E[f], for f normal about the model's mean and not below 0. REQUIRES: factor > 0.
[[nodiscard]] double mean_dropped_share(const LoadModel& model, double factor);

/// Of one expert, where each of `devices` devices has `experts`: see above. REQUIRES: both at least 1.
[[nodiscard]] LoadModel model_of_experts(const LoadModel& of_device, std::int64_t experts, std::int64_t devices);

}  // namespace tidemark::graph_build
