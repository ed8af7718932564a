#include "planner/estimate/recompute_rule.h"

#include <algorithm>

namespace tidemark::estimate {

ActivationSum::ActivationSum(const TrainingRun& run, double boundary_bytes, std::size_t chunks)
    : run_(run), boundary_bytes_(boundary_bytes), chunks_(static_cast<std::int64_t>(chunks)) {}

void ActivationSum::add_chunk(const std::vector<LayerCost>& layers, double micro_batches) {
  if (!recomputes_layers(run_)) {
    for (const LayerCost& layer : layers) add_kept(layer, micro_batches);
  } else if (run_.recompute.method == Recompute::Method::block) {
    add_block(layers, micro_batches);
  } else {
    add_uniform(layers, micro_batches);
  }
  ++chunk_;
}

void ActivationSum::add_kept(const LayerCost& layer, double micro_batches) {
  sum_.kept += micro_batches * layer.kept;
  sum_.working = std::max(sum_.working, layer.backward);
}

/// Groups of layers keep one input each and are run again as a whole.
void ActivationSum::add_uniform(const std::vector<LayerCost>& layers, double micro_batches) {
  const auto group = static_cast<std::size_t>(std::max<std::int64_t>(1, run_.recompute.layers));
  for (std::size_t first = 0; first < layers.size(); first += group) {
    double rebuilt = 0;
    double backward = 0;
    for (std::size_t i = first; i < std::min(first + group, layers.size()); ++i) {
      rebuilt += layers[i].rebuilt;
      backward = std::max(backward, layers[i].backward);
    }
    sum_.kept += micro_batches * boundary_bytes_;
    sum_.working = std::max(sum_.working, rebuilt - boundary_bytes_ + backward);
  }
}

/// The first layers are recomputed one by one, the others keep everything.
void ActivationSum::add_block(const std::vector<LayerCost>& layers, double micro_batches) {
  LayerPlace place{.chunk = chunk_, .chunks = chunks_};
  for (const LayerCost& layer : layers) {
    const bool first = place.turn(run_.recompute.layers_per_rank) < run_.recompute.layers;
    ++place.in_chunk;
    if (!first) {
      add_kept(layer, micro_batches);
      continue;
    }
    sum_.kept += micro_batches * boundary_bytes_;
    sum_.working = std::max(sum_.working, layer.rebuilt - boundary_bytes_ + layer.backward);
  }
}

}  // namespace tidemark::estimate
