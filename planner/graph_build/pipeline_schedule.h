#pragma once
// The order of forward and backward passes on one pipeline rank: 1F1B and interleaved 1F1B (Megatron-LM), optionally
// with forward/backward overlap (one more warm-up pass; steady-state passes come in pairs).
// Sources: Narayanan et al., arXiv 2104.04473; shared facts on Megatron-LM schedules.

#include <cstdint>
#include <vector>

#include "core/result.h"

namespace tidemark::graph_build {

struct PipelineShape {
  std::int32_t ranks = 1;          ///< p
  std::int32_t chunks = 1;         ///< v, virtual stages per rank
  std::int32_t micro_batches = 1;  ///< m
  bool overlap = false;
};

struct Pass {
  bool forward = true;
  std::int32_t chunk = 0;
  std::int32_t micro_batch = 0;
  bool paired_with_next = false;  ///< overlap: this forward and the next (backward) pass run interleaved
  friend bool operator==(const Pass&, const Pass&) = default;
};

/// Passes of `rank` in order. Errors: interleaved (chunks > 1) with micro_batches not a multiple of ranks; counts < 1.
[[nodiscard]] Result<std::vector<Pass>> pipeline_passes(const PipelineShape& shape, std::int32_t rank);

/// Closed forms: passes held at once (in chunk-micro-batches), and the bubble share of a uniform step.
[[nodiscard]] std::int64_t in_flight_passes(const PipelineShape& shape, std::int32_t rank);
[[nodiscard]] double bubble_share(const PipelineShape& shape);

}  // namespace tidemark::graph_build
