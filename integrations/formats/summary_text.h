#pragma once
// What `tidemark plan` and `tidemark estimate` print on a terminal. Plain ASCII text, no colour; every time is modelled
// and says so.

#include <string>

#include "planner/planner.h"

namespace tidemark::formats {

/// Verdict, a table of ranks, the modelled step, what was decided in words, and the attempts where there was more than
/// one.
[[nodiscard]] std::string plan_summary(const plan::PlanRequest& request, const plan::PlanOutcome& outcome);

/// Per rank, at the peak of its schedule: static memory by category, activations in flight, transients,
/// communication and reserves, the peak, the op it falls on, and the `most` largest contributors with their counts in
/// flight.
[[nodiscard]] std::string estimate_summary(const plan::PlanRequest& request, const plan::PlanOutcome& outcome,
                                           std::size_t most = 8);

}  // namespace tidemark::formats
