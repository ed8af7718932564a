#pragma once
// What the embedding and the head (its products and the loss) cost one rank and micro-batch.

#include "planner/step_time/pass_cost.h"
#include "planner/step_time/rank_shape.h"

namespace tidemark::step_time {

/// The head is a product of its size; it needs no efficiency of its own.
[[nodiscard]] Passes head_passes(const StepSetting& setting);

[[nodiscard]] Passes embedding_passes(const StepSetting& setting);

}  // namespace tidemark::step_time
