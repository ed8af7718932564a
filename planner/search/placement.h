#pragma once
// Where the layers and the main output head of a model sit along a pipeline.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/graph_build/job_spec.h"

namespace tidemark::search {

struct Placement {
  std::vector<std::int32_t> layers;  ///< of each stage, along the pipeline
  bool is_head_apart = false;        ///< the main head sits with the last layer, not on the last stage
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// A search goes no further: its tables grow with the square of the layers, and with layers times stages.
inline constexpr std::int64_t kMostPlacedLayers = 512, kMostPlacedStages = 256;
[[nodiscard]] inline bool is_searchable(const graph_build::JobSpec& job) {
  return static_cast<std::int64_t>(job.model.layers.size()) <= kMostPlacedLayers &&
         job.parallel.stages() <= kMostPlacedStages;
}

/// Sets slots and head stage. REQUIRES: as many counts as stages, which sum to the model's layers.
void place(const graph_build::ModelSpec& model, const Placement& placement, graph_build::ParallelSpec& parallel);

/// `30x2, 1, 0 layers by stage, main head on stage 30`: counts along the pipeline, equal neighbours together.
[[nodiscard]] std::string placement_text(const Placement& placement);

}  // namespace tidemark::search
