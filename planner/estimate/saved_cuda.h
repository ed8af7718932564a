#pragma once
// What a layer of Megatron-LM on CUDA keeps for backward.

#include "planner/estimate/local_sizes.h"
#include "planner/estimate/saved_layer.h"

namespace tidemark::estimate {

/// Everything, before recomputation or offload takes any of it.
[[nodiscard]] SavedAttention saved_attention_cuda(const TrainingRun& run, const LocalSizes& sizes);
/// Attention of decoder tokens (`sizes`) over the output of an encoder of `encoder` sizes.
[[nodiscard]] SavedAttention saved_cross_attention_cuda(const TrainingRun& run, const LocalSizes& sizes,
                                                        const LocalSizes& encoder);
[[nodiscard]] SavedMlp saved_mlp_cuda(const TrainingRun& run, const LocalSizes& sizes);
[[nodiscard]] SavedMlp saved_experts_cuda(const TrainingRun& run, const LocalSizes& sizes);

/// `stays`: the layer whose backward comes first is not offloaded.
[[nodiscard]] LayerCost layer_cost_cuda(const TrainingRun& run, const LocalSizes& sizes, bool experts, bool stays);
[[nodiscard]] LayerCost attention_cost_cuda(const TrainingRun& run, const LocalSizes& sizes);
[[nodiscard]] LayerCost mlp_cost_cuda(const TrainingRun& run, const LocalSizes& sizes, bool experts);

}  // namespace tidemark::estimate
