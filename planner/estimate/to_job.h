#pragma once
// A framework's run as a JobSpec, so that the planner can plan it. A JobSpec describes decoder models in 16 bits whose
// attention is fused; what it cannot say is refused where it would change the answer, and named where it is left out.

#include <string>
#include <vector>

#include "core/result.h"
#include "planner/estimate/training_run.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::estimate {

struct PlannedRun {
  graph_build::JobSpec job;           ///< without a device
  std::vector<std::string> left_out;  ///< one line each
};

/// `name`: of the model. The largest of what the framework itself keeps on any rank (estimate_rank's terms beyond
/// parameters, gradients and optimizer state) becomes ParallelSpec::framework_bytes. Errors (bad_input): the first
/// thing a JobSpec cannot say. The rules of find_problems are for the caller, who knows the device. Pure, thread-safe.
[[nodiscard]] Result<PlannedRun> to_job(const TrainingRun& run, std::string name);

}  // namespace tidemark::estimate
