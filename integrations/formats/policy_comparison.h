#pragma once
// The same job under several policies, side by side.

#include <string>
#include <string_view>
#include <vector>

#include "integrations/formats/report_html.h"  // PolicyResult
#include "planner/planner.h"

namespace tidemark::formats {

/// The figures of an outcome; graphs and programs are left behind.
[[nodiscard]] PolicyResult result_of(std::string_view policy, const plan::PlanOutcome& outcome);

/// One line a policy, then peak and added time of every rank under each. What overflows is marked.
[[nodiscard]] std::string comparison_text(const std::vector<PolicyResult>& results);

/// `json` (an object as plan_json writes it) with `policies`: [{policy, fits, ranks: [...], step_ms, ...}] with the
/// field names of plan.
[[nodiscard]] std::string with_comparison(const std::string& json, const plan::PlanRequest& request,
                                          const std::vector<PolicyResult>& results);

}  // namespace tidemark::formats
