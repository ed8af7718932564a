#pragma once
// Bytes one layer keeps for the backward of one micro-batch, part by part, so that recomputation, offload and swap each
// take out what they take out.

#include <cstdint>

namespace tidemark::estimate {

struct SavedAttention {
  double input = 0;
  double norm = 0;    ///< its output
  double latent = 0;  ///< down-projections of multi-latent attention
  double latent_norm = 0;
  double qkv = 0;
  double qk_norm = 0;
  double rope = 0;
  double core = 0;     ///< scores or statistics
  double context = 0;  ///< output of the core
  double output_norms = 0;
  double mask = 0;  ///< of the dropout after the projection

  [[nodiscard]] double total() const {
    return input + norm + latent + latent_norm + qkv + qk_norm + rope + core + context + output_norms + mask;
  }
};

/// Dense or with experts: the fields of the other kind stay zero.
struct SavedMlp {
  double input = 0;
  double norm = 0;
  double projected = 0;  ///< output of the first matrix
  double activated = 0;
  double rows = 0;  ///< dispatched token rows, input of the experts
  double expert_projected = 0;
  double expert_activated = 0;
  double weighted = 0;  ///< activation times router probability, where that is a product of its own
  double expert_output = 0;
  double shared_projected = 0;
  double shared_activated = 0;
  double router = 0;
  double mask = 0;

  [[nodiscard]] double total() const {
    return input + norm + projected + activated + rows + expert_projected + expert_activated + weighted +
           expert_output + shared_projected + shared_activated + router + mask;
  }
};

struct SavedLayer {
  SavedAttention attention;
  SavedMlp mlp;
  [[nodiscard]] double total() const { return attention.total() + mlp.total(); }
};

/// Where a layer stands on its rank.
struct LayerPlace {
  std::int64_t chunk = 0;
  std::int64_t chunks = 1;  ///< on the rank
  std::int64_t in_chunk = 0;

  /// Its turn where options act on a number of layers: within its chunk, or over the rank, one layer of every chunk at
  /// a time.
  [[nodiscard]] std::int64_t turn(bool over_rank) const { return over_rank ? in_chunk * chunks + chunk : in_chunk; }
};

/// What ActivationSum needs to know about a layer.
struct LayerCost {
  double kept = 0;      ///< for backward
  double rebuilt = 0;   ///< all a whole recomputation brings back
  double backward = 0;  ///< working set of its backward beside what is kept
};

}  // namespace tidemark::estimate
