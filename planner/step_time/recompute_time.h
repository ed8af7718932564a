#pragma once
// What a layer runs again in its backward, a mean over the layers of its kind.

#include "planner/step_time/layer_time.h"

namespace tidemark::step_time {

/// Modules that the layer does not have cost what wrapping them takes; names that TimedRun does not list cost nothing.
[[nodiscard]] PassCost recompute_cost(const StepSetting& setting, const LayerCost& layer);

}  // namespace tidemark::step_time
