#pragma once
// How long a step takes, modelled from the shapes of the layers: only good for saying which of two runs of one model on
// the same devices is slower, and by about how much. Nothing in it was measured on the job.
//
// Counted: multiply-adds of every product (2 operations each, causal attention half of its square), three passes of
// forward work for a step (backward is two), what recomputation runs again, bytes of element-wise work and of weights
// read once a micro-batch and pass, the pipeline's idle part (p - 1) / (m v) (Narayanan et al., arXiv 2104.04473),
// exchanges of tensor parallel ranks (two sums of a layer's output forward, two backward, two where it is recomputed:
// Shoeybi et al., arXiv 1909.08053; a ring sends 2 (t - 1) / t of the bytes, and sequence parallelism as many), of
// experts and of context parallel keys, half of gradients' exchange, and copies to host memory beyond what
// the layer's own work covers. Recomputing all of a layer costs one more forward, a third of its step, as measured by
// Korthikanti et al. (arXiv 2205.05198: 30 to 40 %).

#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

/// Seconds of one step, in parts that combine differently where several things of a run change. REQUIRES: as
/// step_seconds.
struct StepTime {
  double passes = 0;       ///< of all micro-batches, without the pipeline's idle part
  double idle_chunks = 0;  ///< that part, in micro-batches
  double micro_batches = 1;
  double end = 0;  ///< the optimizer, and the exchange of gradients and weights

  [[nodiscard]] double seconds() const { return passes * (1 + idle_chunks / micro_batches) + end; }
};
[[nodiscard]] StepTime step_time(const TrainingRun& run);

/// Seconds of one step of a rank that holds the mean of the layers. REQUIRES: a run estimate_rank accepts. Pure.
[[nodiscard]] double step_seconds(const TrainingRun& run);

/// Percent that `after` takes longer than `before`; negative: less long.
[[nodiscard]] double step_percent(const TrainingRun& before, const TrainingRun& after);

}  // namespace tidemark::estimate
