#pragma once
// What the feed-forward part of one layer costs: dense, or routed to experts.

#include "planner/step_time/pass_cost.h"
#include "planner/step_time/rank_shape.h"

namespace tidemark::step_time {

[[nodiscard]] Passes dense_passes(const StepSetting& setting);
/// Of it the activation, forward: what is run again alone.
[[nodiscard]] PassCost dense_activation(const StepSetting& setting);

struct MoePasses {
  Passes routed;        ///< router, permutation, experts, dispatch and combine
  Passes shared;        ///< the shared expert; nothing where there is none
  PassCost activation;  ///< of the routed ones, forward: what is run again alone
};
/// REQUIRES: the model has experts, top_k >= 1.
[[nodiscard]] MoePasses moe_passes(const StepSetting& setting);

}  // namespace tidemark::step_time
