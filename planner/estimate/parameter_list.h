#pragma once
// The parameters one rank holds, tensor by tensor in the framework's order: allocator, bucket and optimizer pieces need
// single sizes, not only their sum.

#include <cstdint>
#include <vector>

#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

/// What a tensor is to the parts that treat tensors differently.
enum class ParameterRole : std::uint8_t {
  vector,     ///< norms and biases
  linear,     ///< weight of a matrix product inside a layer: 8-bit runs keep a copy of it
  matrix,     ///< two-dimensional, never in 8 bits
  embedding,  ///< input or output vocabulary, positions
};

struct Parameter {
  std::int64_t elements = 0;  ///< on this rank
  ParameterRole role = ParameterRole::vector;
  bool expert = false;  ///< sharded over the expert data-parallel group
};

/// Parameters of a pipeline rank, chunk by chunk. REQUIRES: a run estimate_rank accepts.
[[nodiscard]] std::vector<std::vector<Parameter>> chunk_parameters(const TrainingRun& run, std::int64_t stage);
[[nodiscard]] std::vector<Parameter> rank_parameters(const TrainingRun& run, std::int64_t stage);

/// Whether decoder layer `layer` of the model has experts.
[[nodiscard]] bool has_experts(const TrainingRun& run, std::int64_t layer);

[[nodiscard]] double count_elements(const std::vector<Parameter>& parameters);

}  // namespace tidemark::estimate
