#pragma once
// The run that a framework's arguments describe, as its step time is priced (planner/step_time): one model for measured
// rows, launch scripts and the flags that are proposed for them.

#include "core/chip.h"
#include "planner/estimate/training_run.h"
#include "planner/step_time/timed_run.h"

namespace tidemark::estimate {

struct PricedRun {
  step_time::TimedRun run;
  step_time::Software software;  ///< of the framework, with what the run says of its optimizer and attention
};

/// Approximations: of a hybrid pattern each letter is half a layer, with attention; experts on a latent width are taken
/// as narrower ones; layers are shared out evenly, but for the last stage's where it has fewer. Precisions that the
/// device lacks are priced as bf16. REQUIRES: a run estimate_rank accepts. Pure; any thread.
[[nodiscard]] PricedRun to_timed_run(const TrainingRun& run, const Chip& chip);

}  // namespace tidemark::estimate
