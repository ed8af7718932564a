#pragma once
// What a layer of MindSpeed-LLM on Ascend keeps for backward.

#include "planner/framework/local_sizes.h"
#include "planner/framework/saved_layer.h"

namespace tidemark::framework {

[[nodiscard]] SavedAttention saved_attention_ascend(const TrainingRun& run, const LocalSizes& sizes);
[[nodiscard]] SavedMlp saved_mlp_ascend(const TrainingRun& run, const LocalSizes& sizes);
[[nodiscard]] SavedMlp saved_experts_ascend(const TrainingRun& run, const LocalSizes& sizes);

/// `index`: of the layer on its rank. MindSpeed's options with a number of layers act on a rank's first ones.
[[nodiscard]] SavedLayer saved_layer_ascend(const TrainingRun& run, const LocalSizes& sizes, bool experts,
                                            std::int64_t index);
[[nodiscard]] LayerCost layer_cost_ascend(const TrainingRun& run, const LocalSizes& sizes, bool experts,
                                          std::int64_t index);

}  // namespace tidemark::framework
