#pragma once
// A plan file for reading: what `tidemark show` prints.

#include <string>
#include <vector>

#include "integrations/formats/named_decision.h"
#include "planner/planner.h"

namespace tidemark::formats {

/// Borrowed for the call.
struct ShownPlan {
  const plan::PlanRequest& request;
  const plan::PlanOutcome& outcome;
  std::vector<NamedDecision> decisions;
};

/// What is printed after the summary.
struct ShownParts {
  bool decisions = false;
  bool picture = false;
};

[[nodiscard]] std::string shown_text(const ShownPlan& plan, const ShownParts& parts);
/// The fields of plan_json but `seconds`, with `decisions` and `pictures` (text) where asked for.
[[nodiscard]] std::string shown_json(const ShownPlan& plan, const ShownParts& parts);

}  // namespace tidemark::formats
