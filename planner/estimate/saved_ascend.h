#pragma once
// What a layer of MindSpeed-LLM on Ascend keeps for backward.

#include "planner/estimate/local_sizes.h"
#include "planner/estimate/saved_layer.h"

namespace tidemark::estimate {

[[nodiscard]] SavedAttention saved_attention_ascend(const TrainingRun& run, const LocalSizes& sizes);
[[nodiscard]] SavedMlp saved_mlp_ascend(const TrainingRun& run, const LocalSizes& sizes);
[[nodiscard]] SavedMlp saved_experts_ascend(const TrainingRun& run, const LocalSizes& sizes);

/// After recomputation of single modules and swapping.
[[nodiscard]] SavedLayer saved_layer_ascend(const TrainingRun& run, const LocalSizes& sizes, bool experts,
                                            const LayerPlace& place);
[[nodiscard]] LayerCost layer_cost_ascend(const TrainingRun& run, const LocalSizes& sizes, bool experts,
                                          const LayerPlace& place);

}  // namespace tidemark::estimate
