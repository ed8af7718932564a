#pragma once
// Whether the memory of a run can be estimated at all.

#include "core/result.h"
#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

/// Error: a kind of job not modelled, a size that is missing or beyond any machine, a layout that does not fit.
[[nodiscard]] Status check_estimable(const TrainingRun& run);

}  // namespace tidemark::estimate
