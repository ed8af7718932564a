#include "planner/framework/peak_ascend.h"

#include <algorithm>

#include "planner/framework/in_flight.h"
#include "planner/framework/loss_spike.h"
#include "planner/framework/recompute_rule.h"
#include "planner/framework/saved_ascend.h"

namespace tidemark::framework {
namespace {

/// Decoder layers and multi-token-prediction depths of a chunk; `index` counts layers over the rank.
std::vector<LayerCost> chunk_layers(const RankView& view, const Chunk& chunk, std::int64_t& index) {
  const TrainingRun& run = view.run;
  std::vector<LayerCost> layers;
  for (const std::int64_t layer : chunk.layers)
    layers.push_back(layer_cost_ascend(run, view.sizes, has_experts(run, layer), index++));
  for (std::int64_t depth = 0; depth < chunk.mtp; ++depth)
    layers.push_back(layer_cost_ascend(run, view.sizes, has_experts(run, run.model.layers - 1), index++));
  return layers;
}

Activations activations_of(const RankView& view) {
  const std::vector<Chunk>& chunks = view.run.parallel.chunks[static_cast<std::size_t>(view.place.stage)];
  const std::vector<std::int64_t> kept = in_flight(view.run, view.place.stage, chunks.size());
  ActivationSum sum(view.run, view.sizes.boundary_bytes);
  std::int64_t index = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i)
    sum.add_chunk(chunk_layers(view, chunks[i], index), static_cast<double>(kept[i]));
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

}  // namespace tidemark::framework
