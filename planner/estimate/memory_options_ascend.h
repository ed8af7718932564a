#pragma once
// MindSpeed's options that rebuild or swap parts of what a layer keeps.

#include "planner/estimate/saved_layer.h"
#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

/// `saved` without what is thrown away and rebuilt in backward.
[[nodiscard]] SavedLayer without_rebuilt(const TrainingRun& run, const LayerPlace& place, SavedLayer saved);

/// `saved` without what waits in host memory.
[[nodiscard]] SavedLayer without_swapped(const TrainingRun& run, const LayerPlace& place, SavedLayer saved);

}  // namespace tidemark::estimate
