#pragma once
// Fully sharded weights (FSDP): gathered for forward and backward and gradients scattered, a layer ahead of compute.

#include "planner/step_time/held_elements.h"
#include "planner/step_time/rank_shape.h"

namespace tidemark::step_time {

/// Of one micro-batch, what its compute of `compute_s` does not hide; 0 where weights are held whole.
[[nodiscard]] double sharded_s(const StepSetting& setting, const HeldElements& held, double compute_s);

}  // namespace tidemark::step_time
