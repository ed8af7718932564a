#pragma once
// What the attention of one layer costs: its projections, and its core of scores, softmax and values.

#include "planner/step_time/pass_cost.h"
#include "planner/step_time/rank_shape.h"

namespace tidemark::step_time {

/// Of queries, keys and values, and of the output; MLA: down and up.
[[nodiscard]] Passes projection_passes(const StepSetting& setting);
/// Of them the output projection, forward: seconds.
[[nodiscard]] double output_projection_s(const StepSetting& setting);

/// MLA's products from the latent widths up, which alone may be run again. No time without MLA.
[[nodiscard]] PassCost up_projection_again(const StepSetting& setting);

/// Fused, or with scores in memory where the software is eager.
[[nodiscard]] Passes core_passes(const StepSetting& setting);

}  // namespace tidemark::step_time
