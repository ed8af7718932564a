#pragma once
// The parameter tensors one device holds, by site (a layer, the embedding, the head, an MTP module) and by group (what
// is gathered, reduced and updated together). Static memory, parameter counts and the step graph all read these lists.
// Counts are elements on one device after tensor and expert parallelism.

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

/// The output matrix of a head that does not use the embedding's.
inline constexpr const char* kOutputMatrix = "output";

struct ParameterTensor {
  std::string name;
  std::int64_t elements = 0;
  bool quantized = false;  ///< a matrix of a linear layer, which 8-bit products read as 8-bit copies
};

struct ParameterGroup {
  std::string name;  ///< "attention", "norms", "mlp", "experts", "projection", "embedding" or "head"
  std::string module_path;
  bool expert = false;  ///< sharded over expert-data ranks
  std::vector<ParameterTensor> tensors;

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::int64_t largest_tensor() const;
  [[nodiscard]] std::int64_t quantized_elements() const;
};

struct ParameterSite {
  enum class Kind : std::uint8_t { embedding, dense_layer, moe_layer, mtp, head };
  Kind kind = Kind::dense_layer;
  std::int32_t chunk = 0;
  std::int32_t layer = -1;  ///< model layer; layers + n for MTP module n
  std::vector<ParameterGroup> groups;
};

[[nodiscard]] std::vector<ParameterGroup> layer_parameters(const ModelSpec& model, const ParallelSpec& parallel,
                                                           LayerKind kind);

/// Everything rank `rank` holds: the embedding on the first rank; per chunk its layers; MTP modules with a copy of the
/// embedding where the rank holds none; the head on the rank of its stage, without its own matrix where it can share
/// the embedding's; where that is not the last stage, the matrix alone once more for the heads of MTP modules.
[[nodiscard]] std::vector<ParameterSite> rank_parameters(const JobSpec& job, std::int32_t rank);

/// Kind of layer inside an MTP module: that of the last layer of the model.
[[nodiscard]] inline LayerKind mtp_layer_kind(const ModelSpec& model) {
  return model.layers.back();
}

/// Devices over which the optimizer state of a group is spread (1 without a distributed optimizer).
[[nodiscard]] std::int64_t optimizer_shards(const ParallelSpec& parallel, bool expert);

/// Of what persists: storages of this role may be swapped, so that plans may leave them in host memory between steps.
/// Optimizer state alone, as only its update touches it.
[[nodiscard]] constexpr bool may_be_offloaded(StorageRole role) {
  return role == StorageRole::optimizer_state;
}

/// Bytes of parameters and of gradients of a group on one device, sharding included. Of products in fp8 the parameters
/// have two 8-bit copies beside them, by rows and by columns, made once a step: what estimate counts of Transformer
/// Engine before Blackwell (quantized_weights).
[[nodiscard]] Bytes parameter_state_bytes(const ParallelSpec& parallel, const ParameterGroup& group);
[[nodiscard]] Bytes gradient_state_bytes(const ParallelSpec& parallel, const ParameterGroup& group);

/// Bytes of optimizer state of `elements` parameters on one device, sharding included.
[[nodiscard]] Bytes optimizer_state_bytes(const ParallelSpec& parallel, std::int64_t elements, bool expert);

}  // namespace tidemark::graph_build
