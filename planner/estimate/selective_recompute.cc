#include "planner/estimate/selective_recompute.h"

#include <algorithm>

#include "planner/estimate/local_sizes.h"

namespace tidemark::estimate {

bool recomputes(const TrainingRun& run, std::string_view module) {
  const Recompute& recompute = run.recompute;
  if (recompute.granularity != Recompute::Granularity::selective) return false;
  if (recompute.modules.empty()) return module == "core_attn";
  return std::find(recompute.modules.begin(), recompute.modules.end(), module) != recompute.modules.end();
}

bool attention_norm_stands_alone(const TrainingRun& run) {
  return on_ascend(run) || run.model.transformer_impl_local || run.model.attention.multi_latent;
}

bool mlp_norm_stands_alone(const TrainingRun& run, bool experts) {
  return on_ascend(run) || run.model.transformer_impl_local || experts;
}

SavedAttention without_recomputed(const TrainingRun& run, SavedAttention saved) {
  if (recomputes(run, "core_attn")) saved.core = 0;
  if (recomputes(run, "layernorm") && attention_norm_stands_alone(run)) saved.norm = 0;
  // The norms of the latents are inside the up-projections.
  if (recomputes(run, "mla_up_proj") && run.model.attention.multi_latent)
    saved.qkv = saved.rope = saved.latent_norm = 0;
  return saved;
}

SavedMlp without_recomputed(const TrainingRun& run, SavedMlp saved) {
  const bool experts = saved.router > 0;
  if (experts && recomputes(run, "moe")) return {.input = saved.input, .norm = saved.norm};
  if (recomputes(run, "layernorm") && mlp_norm_stands_alone(run, experts)) saved.norm = 0;
  if (!experts && recomputes(run, "mlp")) saved.projected = saved.activated = 0;
  if (recomputes(run, "moe_act")) saved.expert_activated = saved.weighted = 0;
  if (recomputes(run, "shared_experts")) saved.shared_projected = saved.shared_activated = 0;
  return saved;
}

}  // namespace tidemark::estimate
