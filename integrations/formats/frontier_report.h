#pragma once
// What memory buys a job (planner/budget_frontier.h), for people, as JSON and in the HTML report.

#include <span>
#include <string>

#include "planner/budget_frontier.h"

namespace tidemark::formats {

/// One line a budget, with a bar; `asked` is marked.
[[nodiscard]] std::string frontier_text(std::span<const plan::BudgetPoint> points, Bytes asked);

/// `json` (an object as plan_json writes it) with `frontier`: [{budget_bytes, fits, ranks_fit, step_ms,
/// keep_all_step_ms, added_ms, recompute_ms, swapped_bytes}], times added and recomputed of the rank that adds most.
[[nodiscard]] std::string with_frontier(const std::string& json, std::span<const plan::BudgetPoint> points);

/// A section with a table and a picture; nothing without points.
[[nodiscard]] std::string frontier_html(std::span<const plan::BudgetPoint> points, Bytes asked);

}  // namespace tidemark::formats
