#include "planner/estimate/peak_ascend.h"

#include <algorithm>
#include <numeric>

#include "planner/estimate/attention_mask_ascend.h"
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

std::vector<std::int64_t> kept_of(const RankView& view) {
  const auto& chunks = view.run.parallel.chunks[static_cast<std::size_t>(view.place.stage)];
  return in_flight(view.run, view.place.stage, chunks.size());
}

Activations activations_of(const RankView& view, const std::vector<std::int64_t>& kept) {
  const std::vector<Chunk>& chunks = view.run.parallel.chunks[static_cast<std::size_t>(view.place.stage)];
  ActivationSum sum(view.run, view.sizes.boundary_bytes, chunks.size());
  LayerPlace place{.chunks = static_cast<std::int64_t>(chunks.size())};
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    place.chunk = static_cast<std::int64_t>(i);
    sum.add_chunk(chunk_layers(view, chunks[i], place), static_cast<double>(kept[i]));
  }
  return sum.result();
}

Term saved_activations(double bytes) {
  return {"activations", bytes, Origin::code, "mindspeed_llm/core/transformer: tensors autograd keeps"};
}

/// The last micro-batch before its first layer, while its mask is made; chunks count alike.
std::vector<Term> mask_making(const RankView& view, double activations, double in_flight) {
  TermList terms;
  terms.add(saved_activations(in_flight > 0 ? activations * (in_flight - 1) / in_flight : 0));
  terms.add({"mask_making", mask_making_bytes(view), Origin::code,
             "mindspeed_llm/training/utils.py: get_tune_attention_mask"});
  return std::move(terms).take();
}

/// When forward and backward of the layers and the loss need most.
std::vector<Term> layers_and_loss(const RankView& view, const Activations& activations) {
  const std::vector<Term> spike = view.has_loss() ? loss_spike_ascend(view) : std::vector<Term>{};
  TermList terms;
  terms.add(saved_activations(activations.kept));
  if (sum_of(spike) >= activations.working)
    for (const Term& term : spike) terms.add(term);
  else
    terms.add({"backward_work", activations.working, Origin::code,
               "mindspeed/core/transformer/moe/moe_utils.py; gradients and rebuilt tensors of one layer"});
  return std::move(terms).take();
}

}  // namespace

std::vector<Term> pass_ascend(const RankView& view) {
  const std::vector<std::int64_t> kept = kept_of(view);
  const auto waiting = static_cast<double>(std::accumulate(kept.begin(), kept.end(), std::int64_t{0}));
  const Activations activations = activations_of(view, kept);
  std::vector<Term> most = layers_and_loss(view, activations);
  std::vector<Term> making = mask_making(view, activations.kept, waiting);
  if (sum_of(making) > sum_of(most)) most = std::move(making);
  TermList terms;
  for (const Term& term : most) terms.add(term);
  terms.add(waiting_masks(view, waiting));
  terms.add({"gradient_copy_freed", -view.state.gradient_copy, Origin::code,
             "megatron/core/optimizer/distrib_optimizer.py: freed by zero_grad"});
  return std::move(terms).take();
}

}  // namespace tidemark::estimate
