#include "planner/estimate/static_ascend.h"

#include <cstddef>

#include "planner/estimate/attention_mask_ascend.h"
#include "planner/estimate/static_state.h"

namespace tidemark::estimate {
namespace {

double number(std::int64_t value) {
  return static_cast<double>(value);
}

/// Input and its gradient of the last exchange with the stage before.
Term pipeline_residue(const RankView& view) {
  const bool used = view.place.stage > 0;
  return {"pipeline_residue", used ? view.knobs.boundary_tensors * view.sizes.boundary_bytes : 0, Origin::fitted,
          "measured: exact on later stages"};
}

Term recompute_in_advance(const RankView& view) {
  const double chunks = number(static_cast<std::int64_t>(view.chunks.size()));
  const bool used = view.run.recompute.in_advance;
  return {"recompute_in_advance", used ? 2 * chunks * view.sizes.boundary_bytes : 0, Origin::fitted,
          "measured: two boundary tensors a chunk"};
}

Term dispatcher_gather(const RankView& view) {
  const TrainingRun& run = view.run;
  double bytes = 0;
  if (gathers_tokens(run)) {
    const double group = number(run.parallel.expert * run.parallel.expert_tensor);
    bytes = (run.model.moe.allgather_overlap ? 2 : group) * view.sizes.boundary_bytes;
  } else if (shards_sequence(run) && run.model.moe.experts > 0) {
    bytes = view.sizes.tokens * view.sizes.hidden * view.sizes.element_bytes;
  }
  return {"gathered_tokens", bytes, Origin::fitted, "measured: the last gathered tokens stay referenced"};
}

/// Storages are resized only at the synchronisation of the next layer.
Term swap_attention_residue(const RankView& view) {
  const bool used = view.run.offload.attention;
  return {"swap_attention_residue", used ? view.knobs.swap_attention_residue * view.sizes.boundary_bytes : 0,
          Origin::fitted, "mindspeed/core/memory/swap_attention/prefetch.py: sync_d2h; amount measured"};
}

Term coc_buffer(const RankView& view) {
  const bool used = view.run.fused_coc;
  return {"coc_buffer", used ? view.sizes.tokens * view.sizes.hidden * view.sizes.element_bytes : 0, Origin::fitted,
          "measured: one gathered input with use-ascend-coc"};
}

std::int64_t decoder_layers(const RankView& view) {
  std::int64_t layers = 0;
  for (const Chunk& chunk : view.run.parallel.chunks[static_cast<std::size_t>(view.place.stage)])
    layers += static_cast<std::int64_t>(chunk.layers.size());
  return layers;
}

/// One bias tensor a layer, and the one they are cut from. Beside the fused kernel each layer has a mask of its own.
Term alibi_bias(const RankView& view) {
  double bytes = 0;
  if (view.run.model.positions == PositionEmbedding::alibi) {
    const double square = view.sizes.keys * view.sizes.keys;
    const double layers = number(decoder_layers(view));
    bytes = square * view.sizes.element_bytes * (layers * view.sizes.sequences * view.sizes.heads + 1);
    if (view.run.model.attention.use_flash) bytes += square * layers;
  }
  return {"alibi_bias", bytes, Origin::code, "mindspeed_llm/core/transformer/custom_dot_product_attention.py"};
}

/// The unfused core multiplies into a buffer that every layer uses and that is never given back.
Term score_buffer(const RankView& view) {
  const Attention& attention = view.run.model.attention;
  const bool used = !attention.use_flash && view.run.model.positions != PositionEmbedding::alibi;
  const double scores = view.sizes.sequences * view.sizes.heads * view.sizes.queries * view.sizes.keys;
  return {"score_buffer", used ? scores * view.sizes.element_bytes : 0, Origin::code,
          "megatron/core/transformer/dot_product_attention.py: get_global_memory_buffer"};
}

}  // namespace

std::vector<Term> static_ascend(const RankView& view) {
  TermList terms;
  add_state_terms(view, terms);
  terms.add(attention_mask(view));
  terms.add(pipeline_residue(view));
  terms.add(recompute_in_advance(view));
  terms.add(dispatcher_gather(view));
  terms.add(swap_attention_residue(view));
  terms.add(coc_buffer(view));
  terms.add(alibi_bias(view));
  terms.add(score_buffer(view));
  return std::move(terms).take();
}

}  // namespace tidemark::estimate
