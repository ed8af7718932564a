#pragma once
// Whether plan.json can hold a plan.

#include <string>

#include "planner/planner.h"

namespace tidemark::formats {

/// The first number of a plan that a reader of plan.json would refuse, as one line; empty: there is none. Where every
/// number of the job and the device is in range, sums and products of them can still leave it.
[[nodiscard]] std::string number_out_of_range(const plan::PlanRequest& request, const plan::PlanOutcome& outcome);

}  // namespace tidemark::formats
