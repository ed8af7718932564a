#pragma once
// The budget file tidemark-budget.yaml: which jobs a team holds against which limits.
//
// Schema `tidemark-budget/1` (docs/formats.md, docs/schemas/budget.schema.json). Every mistake is one line
// `file:line: what, and what would be right`. Pure: file names are kept as written, and no file is opened.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/ci/budget_job.h"

namespace tidemark::ci {

inline constexpr std::string_view kBudgetSchema = "tidemark-budget/1";
inline constexpr std::string_view kBudgetFileName = "tidemark-budget.yaml";
inline constexpr std::string_view kBaselineFileName = "tidemark-baseline.json";
/// Of a file: jobs, and limits and waivers of all of them together.
inline constexpr std::size_t kMostBudgetItems = 1000;

struct BudgetFile {
  std::string name;                         ///< as it was opened, for places in messages and reports
  std::string baseline{kBaselineFileName};  ///< relative to the budget file
  bool is_baseline_named = false;           ///< false: the default, which need not be there
  int baseline_line = 0;                    ///< 0: not named
  std::vector<BudgetJob> jobs;              ///< in the order of the file
};

/// Errors (bad_input): `file:line: what, and what would be right`, the first in the text.
[[nodiscard]] Result<BudgetFile> read_budget_file(std::string_view text, std::string_view file_name);

}  // namespace tidemark::ci
