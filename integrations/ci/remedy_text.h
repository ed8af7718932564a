#pragma once
// What to do, a line each. Private to ci.

#include <string>
#include <vector>

#include "integrations/ci/report.h"
#include "planner/budget/remedy.h"

namespace tidemark::ci {

/// Every edit, since half of a remedy clears nothing: `recompute moe.permute on pp0-3: saves 2.10 GiB`, then what the
/// edits come to, labelled as what it is.
[[nodiscard]] std::vector<std::string> remedy_lines(const budget::Remedy& remedy);

/// Of the same edits those that have a place.
[[nodiscard]] std::vector<ReportEdit> placed_edits(const budget::Remedy& remedy);

}  // namespace tidemark::ci
