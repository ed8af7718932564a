#pragma once
// Which attention kernel a CUDA run uses where its arguments leave the choice to Transformer Engine.

#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

/// Never `automatic`.
[[nodiscard]] AttentionBackend attention_backend(const TrainingRun& run);

/// Scores are materialised (sequence squared).
[[nodiscard]] inline bool stores_scores(AttentionBackend backend) {
  return backend == AttentionBackend::unfused || backend == AttentionBackend::local;
}

/// Of the kernel that the run uses, on either accelerator: MindSpeed's switch decides on Ascend.
[[nodiscard]] bool keeps_scores(const TrainingRun& run);

}  // namespace tidemark::estimate
