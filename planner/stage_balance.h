#pragma once
// How evenly the passes of a step fall on ranks and on their chunks. An even rank with one heavy chunk still stalls:
// with interleaved chunks every rank waits for the slowest chunk of all.

#include <cstdint>
#include <optional>

#include "planner/planner.h"

namespace tidemark::plan {

/// Of time on the compute lane, modelled: layers, heads and what is run again, without the optimizer.
struct StageBalance {
  std::int32_t busiest_rank = 0;
  double rank_percent = 0;  ///< above the mean of ranks
  std::int32_t busiest_chunk_rank = 0, busiest_chunk = 0;
  double chunk_percent = 0;  ///< above the mean of all chunks
};

/// Nothing for one rank, or where ranks are missing or were not timed. O(tasks).
[[nodiscard]] std::optional<StageBalance> stage_balance(const PlanOutcome& outcome,
                                                        const graph_build::ParallelSpec& parallel);

}  // namespace tidemark::plan
