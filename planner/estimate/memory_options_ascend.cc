#include "planner/estimate/memory_options_ascend.h"

#include <algorithm>
#include <optional>

#include "planner/estimate/selective_recompute.h"

namespace tidemark::estimate {
namespace {

/// An option with a number of layers acts on the first that whole recomputation leaves; without one on all of those.
bool acts_on(const TrainingRun& run, const LayerPlace& place, const std::optional<std::int64_t>& layers) {
  const std::int64_t turn = place.turn(run.recompute.layers_per_rank);
  const std::int64_t whole = run.recompute.layers;
  return turn >= whole && (!layers || turn < whole + *layers);
}

/// All levels drop the dispatched rows and the activation; level 1 drops the projection of its first layers too, where
/// the shared expert goes along.
void drop_zero_memory(const TrainingRun& run, const LayerPlace& place, SavedMlp& saved) {
  const Experts& moe = run.model.moe;
  if (moe.zero_memory == ZeroMemory::off) return;
  saved.rows = saved.expert_activated = saved.shared_activated = saved.activated = 0;
  const std::int64_t layers = moe.zero_memory_layers.value_or(0);
  const bool whole = layers == 0 || place.turn(true) < layers;
  if (moe.zero_memory == ZeroMemory::level1 && whole) saved.expert_projected = saved.shared_projected = 0;
}

/// Rebuilding all of latent attention keeps its input; rebuilding the up-projections keeps the latents too.
void drop_latent(const TrainingRun& run, const LayerPlace& place, SavedAttention& saved) {
  if (!run.model.attention.multi_latent) return;
  if (run.recompute.mla_attention) {
    saved = {.input = saved.input, .norm = saved.norm, .output_norms = saved.output_norms};
    return;
  }
  // The folded pipeline turns around on its last chunk: nothing is to be gained there.
  const bool last = run.parallel.schedule == Schedule::dualpipev && place.chunk + 1 == place.chunks;
  if (run.recompute.mla_up_projection && !last) saved.qkv = saved.rope = saved.latent_norm = 0;
}

/// swap-attention with a number of layers to recompute recomputes their feed-forward parts, not the whole layers.
bool recomputes_mlp(const TrainingRun& run, const LayerPlace& place) {
  const Recompute& recompute = run.recompute;
  if (!run.offload.attention || recompute.granularity == Recompute::Granularity::full) return false;
  return place.turn(recompute.layers_per_rank) < recompute.layers;
}

}  // namespace

SavedLayer without_rebuilt(const TrainingRun& run, const LayerPlace& place, SavedLayer saved) {
  const Recompute& recompute = run.recompute;
  saved.attention = without_recomputed(run, saved.attention);
  saved.mlp = without_recomputed(run, saved.mlp);
  if (recompute.activation_function && acts_on(run, place, recompute.activation_function_layers))
    saved.mlp.activated = saved.mlp.expert_activated = saved.mlp.shared_activated = 0;
  if (recompute.norms && acts_on(run, place, recompute.norm_layers)) saved.attention.norm = saved.mlp.norm = 0;
  drop_zero_memory(run, place, saved.mlp);
  drop_latent(run, place, saved.attention);
  if (recomputes_mlp(run, place)) saved.mlp = {.input = saved.mlp.input, .norm = saved.mlp.norm};
  return saved;
}

SavedLayer without_swapped(const TrainingRun& run, const LayerPlace&, SavedLayer saved) {
  SavedAttention& attention = saved.attention;
  if (run.offload.attention)
    attention.norm = attention.qkv = attention.qk_norm = attention.rope = attention.context = attention.core = 0;
  // The copy cut back to the width of values goes; what the kernel saved of a padded output stays.
  if (run.offload.attention_output && run.model.attention.multi_latent && run.model.attention.v_without_padding)
    attention.context = 0;
  return saved;
}

}  // namespace tidemark::estimate
