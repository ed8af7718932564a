#pragma once
// Elements of weights that one rank holds, before they are fully sharded.

#include "planner/step_time/timed_run.h"

namespace tidemark::step_time {

/// Means over layers, and over stages for a whole stage.
struct HeldElements {
  double dense_layer = 0;   ///< of a mean layer: attention, feed-forward, shared experts, router
  double expert_layer = 0;  ///< of a mean layer: routed experts
  double layers = 0;        ///< of a stage
  double table = 0;         ///< embedding, or head
  double tables = 1;        ///< that the fullest rank holds

  [[nodiscard]] double layer() const { return dense_layer + expert_layer; }
  /// Of a stage: what is the same on all data-parallel ranks.
  [[nodiscard]] double dense() const { return dense_layer * layers + tables * table; }
  [[nodiscard]] double experts() const { return expert_layer * layers; }
};

[[nodiscard]] HeldElements held_elements(const TimedRun& run);

}  // namespace tidemark::step_time
