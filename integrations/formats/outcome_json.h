#pragma once
// The machine-readable answer of `tidemark plan` and `tidemark estimate`: one JSON object. Field names are a contract
// with scripts (docs/formats.md); fields are only ever added. Bytes are integers, times milliseconds per step and
// modelled.

#include <string>

#include "planner/planner.h"

namespace tidemark::formats {

/// `seconds`: wall time of planning, measured by the caller. Ends with a newline.
[[nodiscard]] std::string plan_json(const plan::PlanRequest& request, const plan::PlanOutcome& outcome, double seconds);

/// The same object with `estimate` per rank: bytes by category at the peak and the contributors, largest first.
[[nodiscard]] std::string estimate_json(const plan::PlanRequest& request, const plan::PlanOutcome& outcome,
                                        double seconds);

}  // namespace tidemark::formats
