#pragma once
// Backward divided into the gradient of the input (dX) and that of the weights (dW), and the schedules that it makes
// room for, against the job's own schedule. Passes of the job's own chunks, played whole:
// planner/simulate/split_step.h.

#include <vector>

#include "core/result.h"
#include "planner/prices/kept_step.h"

namespace tidemark::prices {

/// The split alone, ZB-H1, ZB-H2, ZBV, V-Half, V-Min. Off is the job's own schedule and placement, passes one after the
/// other. The zero-bubble ones have one chunk a rank, the V ones two, layers spread so that ranks are equally busy.
/// Errors: faults of the planner.
[[nodiscard]] Result<std::vector<SwitchPrice>> schedule_prices(const KeptStep& step);

}  // namespace tidemark::prices
