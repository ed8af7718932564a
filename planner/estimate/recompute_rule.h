#pragma once
// What recomputation of whole layers leaves of a chunk.

#include <cstdint>
#include <vector>

#include "planner/estimate/saved_layer.h"
#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

[[nodiscard]] inline bool recomputes_layers(const TrainingRun& run) {
  return run.recompute.granularity == Recompute::Granularity::full;
}

struct Activations {
  double kept = 0;     ///< of all micro-batches in flight
  double working = 0;  ///< most that the backward of one layer, or of one recomputed group, needs beside it
};

/// Adds up the chunks of a rank. MindSpeed counts layers to recompute over a rank in turn: the first of every chunk,
/// then the second of every chunk.
class ActivationSum {
 public:
  /// REQUIRES: `run` outlives this. `boundary_bytes`: input of a layer, all that a recomputed one keeps.
  ActivationSum(const TrainingRun& run, double boundary_bytes, std::size_t chunks);
  void add_chunk(const std::vector<LayerCost>& layers, double micro_batches);
  [[nodiscard]] const Activations& result() const { return sum_; }

 private:
  void add_uniform(const std::vector<LayerCost>& layers, double micro_batches);
  void add_block(const std::vector<LayerCost>& layers, double micro_batches);
  void add_kept(const LayerCost& layer, double micro_batches);

  const TrainingRun& run_;
  double boundary_bytes_;
  std::int64_t chunks_;
  std::int64_t chunk_ = 0;  ///< the next
  Activations sum_;
};

}  // namespace tidemark::estimate
