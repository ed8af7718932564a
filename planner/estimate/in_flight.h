#pragma once
// How many micro-batches of each chunk are kept at once.

#include <cstdint>
#include <vector>

#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

/// Micro-batches per chunk of pipeline rank `stage` whose forward is done and whose backward is not, when that is most.
/// `chunks`: chunks on the rank.
[[nodiscard]] std::vector<std::int64_t> in_flight(const TrainingRun& run, std::int64_t stage, std::size_t chunks);

}  // namespace tidemark::estimate
