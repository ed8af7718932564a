#pragma once
// What offload and swap options of a run keep in host memory.

#include "planner/estimate/training_run.h"
#include "planner/step_time/timed_run.h"

namespace tidemark::estimate {

/// REQUIRES: a run estimate_rank accepts. Pure.
[[nodiscard]] step_time::HostHeld host_kept(const TrainingRun& run);

}  // namespace tidemark::estimate
