#pragma once
// Parameters of the parts of a layer, appended in the framework's order.

#include <vector>

#include "planner/estimate/parameter_list.h"

namespace tidemark::estimate {

/// Norm and self-attention of decoder layer `layer`.
void append_attention(const TrainingRun& run, std::int64_t layer, std::vector<Parameter>& list);
/// Norm and attention over the encoder's output.
void append_cross_attention(const TrainingRun& run, std::vector<Parameter>& list);
/// Norm and dense feed-forward part.
void append_mlp(const TrainingRun& run, std::vector<Parameter>& list);
/// Norm, router, this rank's experts and the shared expert.
void append_experts(const TrainingRun& run, std::vector<Parameter>& list);
/// Weight, and bias where norms have one, over the hidden width.
void append_norm(const TrainingRun& run, std::vector<Parameter>& list);

}  // namespace tidemark::estimate
