#include "planner/estimate/peak_ascend.h"

#include <algorithm>

#include "planner/estimate/in_flight.h"
#include "planner/estimate/loss_spike.h"
#include "planner/estimate/recompute_rule.h"
#include "planner/estimate/saved_ascend.h"

namespace tidemark::estimate {
namespace {

/// Decoder layers and multi-token-prediction depths of a chunk.
std::vector<LayerCost> chunk_layers(const RankView& view, const Chunk& chunk, LayerPlace place) {
  const TrainingRun& run = view.run;
  std::vector<LayerCost> layers;
  const auto add = [&](std::int64_t layer) {
    layers.push_back(layer_cost_ascend(run, view.sizes, has_experts(run, layer), place));
    ++place.in_chunk;
  };
  for (const std::int64_t layer : chunk.layers) add(layer);
  for (std::int64_t depth = 0; depth < chunk.mtp; ++depth) add(run.model.layers - 1);
  return layers;
}

Activations activations_of(const RankView& view) {
  const std::vector<Chunk>& chunks = view.run.parallel.chunks[static_cast<std::size_t>(view.place.stage)];
  const std::vector<std::int64_t> kept = in_flight(view.run, view.place.stage, chunks.size());
  ActivationSum sum(view.run, view.sizes.boundary_bytes, chunks.size());
  LayerPlace place{.chunks = static_cast<std::int64_t>(chunks.size())};
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    place.chunk = static_cast<std::int64_t>(i);
    sum.add_chunk(chunk_layers(view, chunks[i], place), static_cast<double>(kept[i]));
  }
  return sum.result();
}

}  // namespace

std::vector<Term> pass_ascend(const RankView& view) {
  const Activations activations = activations_of(view);
  const std::vector<Term> spike = view.has_loss() ? loss_spike_ascend(view) : std::vector<Term>{};
  TermList terms;
  terms.add({"activations", activations.kept, Origin::code, "mindspeed_llm/core/transformer: tensors autograd keeps"});
  if (sum_of(spike) >= activations.working)
    for (const Term& term : spike) terms.add(term);
  else
    terms.add({"backward_work", activations.working, Origin::code,
               "mindspeed/core/transformer/moe/moe_utils.py; gradients and rebuilt tensors of one layer"});
  terms.add({"gradient_copy_freed", -view.state.gradient_copy, Origin::code,
             "megatron/core/optimizer/distrib_optimizer.py: freed by zero_grad"});
  return std::move(terms).take();
}

}  // namespace tidemark::estimate
