#pragma once
// How evenly a modelled step falls on ranks and chunks, for people and for programs.

#include <nlohmann/json.hpp>
#include <string>

#include "planner/planner.h"

namespace tidemark::formats {

/// `busiest rank 15, 2.3 % above the mean; busiest chunk 1 of rank 14, 7.0 % above the mean of chunks`. Empty where
/// stage_balance has nothing to say; without the chunks where each rank has one.
[[nodiscard]] std::string balance_text(const plan::PlanRequest& request, const plan::PlanOutcome& outcome);

/// Null where the text is empty.
[[nodiscard]] nlohmann::ordered_json balance_json(const plan::PlanRequest& request, const plan::PlanOutcome& outcome);

}  // namespace tidemark::formats
