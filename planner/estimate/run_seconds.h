#pragma once
// Seconds of a step of a framework's run, by the model that measured rows are scored with. Modelled; good for saying
// which of two runs of one model on the same devices is slower, and by about how much.

#include "core/chip.h"
#include "planner/estimate/to_timed_run.h"
#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

/// Parts that combine differently where several things of a run change.
struct RunSeconds {
  double passes_s = 0;     ///< of all micro-batches on the fullest stage
  double idle_chunks = 0;  ///< filling and draining the pipeline, in micro-batches
  double micro_batches = 1;
  double end_s = 0;  ///< the optimizer, exchange of gradients and weights, host work of the step

  [[nodiscard]] double seconds() const { return passes_s * (1 + idle_chunks / micro_batches) + end_s; }
};

/// REQUIRES: `chip` is the one that `run` was priced for. Pure; any thread.
[[nodiscard]] RunSeconds run_seconds(const PricedRun& run, const Chip& chip);
/// REQUIRES: a run estimate_rank accepts.
[[nodiscard]] RunSeconds run_seconds(const TrainingRun& run, const Chip& chip);

/// Percent that `after` takes longer than `before`; negative: less long.
[[nodiscard]] double step_percent(const TrainingRun& before, const TrainingRun& after, const Chip& chip);

}  // namespace tidemark::estimate
