#pragma once
// Switches that the job's own description has: each line is the job with one key changed, built and played anew.

#include <vector>

#include "core/result.h"
#include "planner/prices/kept_step.h"

namespace tidemark::prices {

/// Hierarchical exchange, forward beside backward, exchange in parts, chunks of a rank. Errors: faults of the planner.
[[nodiscard]] Result<std::vector<SwitchPrice>> exchange_prices(const KeptStep& step);

}  // namespace tidemark::prices
