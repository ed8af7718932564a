#pragma once
// What ends a step: gradients and new weights are exchanged between data-parallel ranks, and weights updated. Modelled.

#include "planner/step_time/held_elements.h"
#include "planner/step_time/rank_shape.h"

namespace tidemark::step_time {

struct StepEnd {
  double optimizer_s = 0;
  double exchange_s = 0;  ///< what compute does not hide
};

/// `micro_batch_s`: of one micro-batch's compute, beside which exchange may run.
[[nodiscard]] StepEnd step_end(const StepSetting& setting, const HeldElements& held, double micro_batch_s);

}  // namespace tidemark::step_time
