#pragma once
// How many parameters a model has, by the closed form of its description: no layout, no graph. What the graph's
// parameter storages add up to on one device is the same (tests/planner/graph_build/parameter_count_test.cc). Counts
// are whole numbers, exact in a double.

#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

struct ParameterCount {
  double total = 0;       ///< one embedding matrix counted
  double total_both = 0;  ///< with the untied output matrix
  double total_with_mtp = 0;
  double active = 0;  ///< per token, one embedding matrix
  friend bool operator==(const ParameterCount&, const ParameterCount&) = default;
};

/// What is trained by gradients; biases that a rule updates, as routers have for balance, are not counted.
/// REQUIRES: `model` of a job without find_description_problems. Pure.
[[nodiscard]] ParameterCount count_parameters(const ModelSpec& model);

/// Of one layer of a kind, and the part that one token meets.
struct LayerCount {
  double total = 0;
  double active = 0;
};
[[nodiscard]] LayerCount count_layer(const ModelSpec& model, LayerKind kind);

/// Of a module for multi-token prediction besides its layer: a projection of twice the hidden width, and norms of the
/// hidden state, of the embedding and in front of its head. It shares the embedding and the output matrix.
[[nodiscard]] double count_mtp_join(const ModelSpec& model);

}  // namespace tidemark::graph_build
