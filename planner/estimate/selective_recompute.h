#pragma once
// What recomputation of single modules leaves of what a layer keeps.

#include <string_view>

#include "planner/estimate/saved_layer.h"
#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

/// Selective recomputation names `module`; without names it means core_attn.
[[nodiscard]] bool recomputes(const TrainingRun& run, std::string_view module);

/// Transformer Engine computes the norm before attention, or before a dense feed-forward part, inside the matrix
/// product that follows: such a norm is no module of its own.
[[nodiscard]] bool attention_norm_stands_alone(const TrainingRun& run);
[[nodiscard]] bool mlp_norm_stands_alone(const TrainingRun& run, bool experts);

[[nodiscard]] SavedAttention without_recomputed(const TrainingRun& run, SavedAttention saved);
[[nodiscard]] SavedMlp without_recomputed(const TrainingRun& run, SavedMlp saved);

}  // namespace tidemark::estimate
