#pragma once
// The part of the report that says what was chosen and why: what each rank was short of and what freed it at which
// price, a map of storages over layers, and the totals per storage.

#include <string>

#include "planner/planner.h"

namespace tidemark::formats {

/// A fragment of HTML. Deterministic, every name escaped.
[[nodiscard]] std::string choices_html(const plan::PlanRequest& request, const plan::PlanOutcome& outcome);

}  // namespace tidemark::formats
