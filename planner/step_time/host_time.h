#pragma once
// What copies to host memory and work of the host take that the device's own work does not hide. Modelled; no measured
// row has either.

#include "planner/step_time/layer_time.h"

namespace tidemark::step_time {

/// Of one layer and micro-batch: activations go down beside its forward and come back beside its backward.
[[nodiscard]] PassCost copy_cost(const StepSetting& setting, const LayerCost& layer);

/// Of the optimizer's step beyond the update on the device. `elements`: whose state the rank holds.
[[nodiscard]] double host_state_s(const StepSetting& setting, double elements);

}  // namespace tidemark::step_time
