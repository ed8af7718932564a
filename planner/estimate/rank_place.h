#pragma once
// Where a global rank stands in the groups that decide its memory.

#include <cstdint>

#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

struct RankPlace {
  std::int64_t rank = 0;
  std::int64_t stage = 0;         ///< pipeline
  std::int64_t dense_shard = 0;   ///< within data * context
  std::int64_t expert_shard = 0;  ///< within expert data
};

/// The frameworks number tensor ranks first, then context, data, pipeline; or pipeline before data.
[[nodiscard]] RankPlace place_of(const TrainingRun& run, std::int64_t rank);

}  // namespace tidemark::estimate
