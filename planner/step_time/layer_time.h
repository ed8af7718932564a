#pragma once
// What one layer costs one rank and micro-batch, and what of its forward each module is: for recompute. Modelled.

#include <cstdint>

#include "planner/step_time/pass_cost.h"
#include "planner/step_time/rank_shape.h"

namespace tidemark::step_time {

enum class LayerKind : std::uint8_t { dense, moe };

/// Forward costs, by the names that frameworks give the modules that are run again.
struct LayerModules {
  PassCost core_attention, up_projection, attention, feed_forward, moe, shared_experts, norms, activation;
};

struct LayerCost {
  LayerKind kind = LayerKind::dense;
  Passes passes;
  LayerModules modules;
};

/// REQUIRES: the model has experts where `kind` is moe.
[[nodiscard]] LayerCost layer_cost(const StepSetting& setting, LayerKind kind);

/// Of the layer's tensor parallel traffic of tokens x hidden, one all-reduce or as much, what is not hidden. 0 for one
/// rank.
[[nodiscard]] double tensor_all_reduce_s(const StepSetting& setting);

}  // namespace tidemark::step_time
