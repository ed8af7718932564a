#include "planner/estimate/attention_backend.h"

namespace tidemark::estimate {

AttentionBackend attention_backend(const TrainingRun& run) {
  const Platform& platform = run.platform;
  if (run.model.transformer_impl_local) return AttentionBackend::local;
  if (run.model.attention.backend != AttentionBackend::automatic) return run.model.attention.backend;
  const bool deterministic = run.deterministic || !platform.allow_nondeterministic;
  if (platform.legacy_attention) return deterministic ? AttentionBackend::unfused : AttentionBackend::flash;
  if (platform.lts) return AttentionBackend::flash;
  if (platform.accelerator == Accelerator::h100) return AttentionBackend::fused;
  if (platform.accelerator == Accelerator::gb200 && !deterministic) return AttentionBackend::fused;
  return AttentionBackend::flash;
}

bool keeps_scores(const TrainingRun& run) {
  const bool on_ascend = run.platform.accelerator == Accelerator::ascend;
  return on_ascend ? !run.model.attention.use_flash : stores_scores(attention_backend(run));
}

}  // namespace tidemark::estimate
