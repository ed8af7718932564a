#include "planner/estimate/activation_offload.h"

#include <algorithm>
#include <string_view>

#include "planner/estimate/attention_backend.h"
#include "planner/estimate/selective_recompute.h"

namespace tidemark::estimate {
namespace {

bool offloads(const TrainingRun& run, std::string_view module) {
  const std::vector<std::string>& modules = run.offload.modules;
  return std::find(modules.begin(), modules.end(), module) != modules.end();
}

/// Tensors below a million elements are not worth a copy.
void drop(const LocalSizes& sizes, double& bytes) {
  constexpr double kLeastElements = 1024.0 * 1024;
  if (bytes >= kLeastElements * sizes.element_bytes) bytes = 0;
}

void drop_attention(const TrainingRun& run, const LocalSizes& sizes, SavedAttention& saved) {
  const bool own_norm = attention_norm_stands_alone(run);
  const bool core = offloads(run, "core_attn");
  const bool scores = stores_scores(attention_backend(run));
  if (offloads(run, "attn_norm") && own_norm) drop(sizes, saved.input);
  if (offloads(run, "qkv_linear")) {
    drop(sizes, saved.norm);
    if (!own_norm) drop(sizes, saved.input);
  }
  // Fused kernels keep their output too: it leaves the device only where both who keep it let it go.
  if (offloads(run, "attn_proj") && (scores || core)) drop(sizes, saved.context);
  if (!core) return;
  drop(sizes, saved.qkv);
  drop(sizes, saved.core);
}

void drop_mlp(const TrainingRun& run, const LocalSizes& sizes, SavedMlp& saved) {
  const bool experts = saved.router > 0;
  if (offloads(run, "mlp_norm") && mlp_norm_stands_alone(run, experts)) drop(sizes, saved.input);
  if (offloads(run, "expert_fc1")) drop(sizes, saved.rows);
  if (!offloads(run, "moe_act")) return;
  drop(sizes, saved.expert_projected);
  drop(sizes, saved.weighted);
}

}  // namespace

SavedLayer without_offloaded(const TrainingRun& run, const LocalSizes& sizes, SavedLayer saved) {
  if (run.offload.modules.empty()) return saved;
  drop_attention(run, sizes, saved.attention);
  drop_mlp(run, sizes, saved.mlp);
  return saved;
}

}  // namespace tidemark::estimate
