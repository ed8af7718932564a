#include "planner/estimate/peak_cuda.h"

#include <algorithm>

#include "planner/estimate/hybrid.h"
#include "planner/estimate/in_flight.h"
#include "planner/estimate/loss_spike.h"
#include "planner/estimate/recompute_rule.h"
#include "planner/estimate/saved_cuda.h"
#include "planner/estimate/selective_recompute.h"

namespace tidemark::estimate {
namespace {

double number(std::int64_t value) {
  return static_cast<double>(value);
}

/// One pass over a model: what its layers keep, and what else is kept beside them.
struct Pass {
  Activations layers;
  double embedding_masks = 0;
  double mtp = 0;
};

double embedding_mask(const RankView& view, const LocalSizes& sizes) {
  return view.run.model.hidden_dropout > 0 ? sizes.shard_tokens * sizes.hidden : 0;
}

/// Before its layer a multi-token-prediction depth norms state and embedding, joins and projects them.
double mtp_entry(const RankView& view) {
  return 6 * view.sizes.boundary_bytes;
}

std::vector<LayerCost> chunk_layers(const RankView& view, const Chunk& chunk, bool last_chunk) {
  std::vector<LayerCost> layers;
  for (std::size_t i = 0; i < chunk.layers.size(); ++i) {
    const bool stays = last_chunk && i + 1 == chunk.layers.size();
    layers.push_back(layer_cost_cuda(view.run, view.sizes, has_experts(view.run, chunk.layers[i]), stays));
  }
  return layers;
}

/// The layer of a depth; where whole layers are recomputed it keeps its input and is rebuilt in backward.
LayerCost mtp_layer(const RankView& view) {
  const TrainingRun& run = view.run;
  LayerCost layer = layer_cost_cuda(run, view.sizes, has_experts(run, run.model.layers - 1), true);
  if (!recomputes_layers(run) || run.recompute.method == Recompute::Method::block) return layer;
  layer.kept = view.sizes.boundary_bytes;
  layer.backward += layer.rebuilt - layer.kept;
  return layer;
}

Pass decoder_pass(const RankView& view) {
  const TrainingRun& run = view.run;
  const std::vector<Chunk>& chunks = run.parallel.chunks[static_cast<std::size_t>(view.place.stage)];
  const std::vector<std::int64_t> kept = in_flight(run, view.place.stage, chunks.size());
  const LayerCost mtp = mtp_layer(view);
  ActivationSum sum(run, view.sizes.boundary_bytes, chunks.size());
  Pass pass;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    sum.add_chunk(chunk_layers(view, chunks[i], i + 1 == chunks.size()), number(kept[i]));
    if (chunks[i].embedding) pass.embedding_masks += number(kept[i]) * embedding_mask(view, view.sizes);
    pass.mtp += number(kept[i] * chunks[i].mtp) * (mtp.kept + mtp_entry(view));
  }
  pass.layers = sum.result();
  if (pass.mtp > 0) pass.layers.working = std::max(pass.layers.working, mtp.backward);
  return pass;
}

LayerCost hybrid_cost(const RankView& view, char letter) {
  if (letter == '*') return attention_cost_cuda(view.run, view.sizes);
  if (letter != 'M') return mlp_cost_cuda(view.run, view.sizes, letter == 'E');
  const double saved = saved_mixer(view.run, view.sizes);
  return {.kept = saved, .rebuilt = saved, .backward = saved - 2 * view.sizes.boundary_bytes};
}

std::vector<LayerCost> hybrid_layers(const RankView& view, const std::string& letters) {
  std::vector<LayerCost> layers;
  for (const char letter : letters) layers.push_back(hybrid_cost(view, letter));
  return layers;
}

Pass hybrid_pass(const RankView& view) {
  const std::vector<std::string> chunks = hybrid_chunks(view.run, view.place.stage);
  const std::vector<std::int64_t> kept = in_flight(view.run, view.place.stage, chunks.size());
  ActivationSum sum(view.run, view.sizes.boundary_bytes, chunks.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) sum.add_chunk(hybrid_layers(view, chunks[i]), number(kept[i]));
  Pass pass{.layers = sum.result()};
  if (view.place.stage == 0) pass.embedding_masks = number(kept.front()) * embedding_mask(view, view.sizes);
  if (!view.last_stage()) return pass;
  for (const std::string& depth : hybrid_pattern(view.run).depths) {
    pass.mtp += number(kept.back()) * mtp_entry(view);
    for (const LayerCost& layer : hybrid_layers(view, depth)) pass.mtp += number(kept.back()) * layer.kept;
  }
  return pass;
}

LayerCost decoder_layer(const RankView& view, const LocalSizes& encoder, const LocalSizes& decoder) {
  LayerCost cost = layer_cost_cuda(view.run, decoder, false, true);
  const SavedAttention cross = saved_cross_attention_cuda(view.run, decoder, encoder);
  cost.kept += without_recomputed(view.run, cross).total();
  cost.rebuilt += cross.total();
  return cost;
}

Pass t5_pass(const RankView& view) {
  const Model& model = view.run.model;
  const LocalSizes& encoder = view.sizes;
  const LocalSizes decoder = local_sizes(view.run, view.knobs, model.decoder_sequence);
  const LayerCost of_encoder = layer_cost_cuda(view.run, encoder, false, true);
  const LayerCost of_decoder = decoder_layer(view, encoder, decoder);
  ActivationSum below(view.run, encoder.boundary_bytes, 1);
  below.add_chunk(std::vector(static_cast<std::size_t>(model.encoder_layers), of_encoder), 1);
  ActivationSum above(view.run, decoder.boundary_bytes, 1);
  above.add_chunk(std::vector(static_cast<std::size_t>(model.layers), of_decoder), 1);
  const double final_norms = 2 * (encoder.boundary_bytes + decoder.boundary_bytes);
  return {.layers = {.kept = below.result().kept + above.result().kept + final_norms,
                     .working = std::max(below.result().working, above.result().working)},
          .embedding_masks = embedding_mask(view, encoder) + embedding_mask(view, decoder)};
}

std::vector<Term> spike_of(const RankView& view) {
  if (view.run.model.kind == ModelClass::t5) {
    const LocalSizes decoder = local_sizes(view.run, view.knobs, view.run.model.decoder_sequence);
    return logits_cuda(view, decoder.tokens);
  }
  return view.has_loss() ? loss_spike_cuda(view) : std::vector<Term>{};
}

/// Fully sharded runs gather weights; those in 8 bits stay gathered and are counted as steady memory.
Term gathered_parameters(const RankView& view) {
  double elements = 0;
  const bool keeps_linear = view.run.quantization.used && view.run.quantization.parameters;
  for (const Parameter& parameter : view.parameters)
    if (!keeps_linear || parameter.role != ParameterRole::linear) elements += number(parameter.elements);
  return {"gathered_parameters", view.run.optimizer.fsdp ? view.sizes.element_bytes * elements : 0, Origin::fitted,
          "measured on fully sharded runs: all weights gathered"};
}

Pass pass_of(const RankView& view) {
  if (view.run.model.kind == ModelClass::t5) return t5_pass(view);
  if (view.run.model.kind == ModelClass::hybrid) return hybrid_pass(view);
  return decoder_pass(view);
}

}  // namespace

PassTerms pass_cuda(const RankView& view) {
  const Pass pass = pass_of(view);
  const std::vector<Term> spike = spike_of(view);
  PassTerms result{.in_forward = sum_of(spike) >= pass.layers.working};
  TermList terms;
  terms.add({"activations", pass.layers.kept, Origin::code, "megatron/core/transformer: tensors autograd keeps"});
  terms.add({"embedding_mask", pass.embedding_masks, Origin::code, "megatron/core/models/common/embeddings"});
  terms.add({"mtp_activations", pass.mtp, Origin::code, "megatron/core/transformer/multi_token_prediction.py"});
  if (result.in_forward)
    for (const Term& term : spike) terms.add(term);
  else
    terms.add({"backward_work", pass.layers.working, Origin::code, "gradients and rebuilt tensors of one layer"});
  terms.add(gathered_parameters(view));
  terms.add({"gradient_copy_freed", -view.state.gradient_copy, Origin::code,
             "megatron/core/optimizer/distrib_optimizer.py: freed by zero_grad"});
  result.terms = std::move(terms).take();
  return result;
}

}  // namespace tidemark::estimate
