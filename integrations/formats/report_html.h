#pragma once
// A planned step as one HTML file that a training engineer reads without Tidemark: verdict and inputs, the modelled
// step, every rank, memory over the step, what each rank does when, every address over time, what was chosen and why,
// what memory buys, layout attempts, and policies side by side. Self-contained: no network, no fonts, light and dark;
// some kilobytes of script draw the pictures, zoom in them, and answer to hovering.

#include <span>
#include <string>
#include <vector>

#include "planner/budget_frontier.h"
#include "planner/planner.h"

namespace tidemark::formats {

/// What another policy came to on the same job, for the comparison table.
struct PolicyResult {
  std::string policy;
  std::vector<plan::RankFigures> ranks;
  plan::StepFigures step;
};

/// Deterministic. Every name from the job is escaped.
[[nodiscard]] std::string report_html(const plan::PlanRequest& request, const plan::PlanOutcome& outcome,
                                      std::span<const PolicyResult> comparison = {},
                                      std::span<const plan::BudgetPoint> frontier = {});

}  // namespace tidemark::formats
