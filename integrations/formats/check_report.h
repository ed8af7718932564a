#pragma once
// The answer of `tidemark check`: one line a person can act on, then who holds the bytes, then the cheapest change that
// clears the budget or why there is none.

#include <optional>
#include <string>
#include <vector>

#include "planner/budget_check.h"
#include "planner/planner.h"

namespace tidemark::formats {

/// What the least-time policy makes of the job at the budget.
struct Remedy {
  plan::PlanRequest request;
  plan::PlanOutcome outcome;
};

struct CheckReport {
  plan::BudgetCheck check;
  std::string what;        ///< what was checked: `plan.json`, or `models/x.yaml with policy keep-all`
  std::string margin;      ///< as asked for: `3 %`
  plan::StepFigures step;  ///< of what was checked
  std::vector<plan::RankFigures> ranks;
  std::vector<plan::Contributor> contributors;  ///< of the worst rank at its peak, largest first
  std::optional<Remedy> remedy;                 ///< on FAIL
};

/// The first line: `FAIL rank 3: peak 61.42 GiB exceeds budget 60.00 GiB by 1.42 GiB (+2.4 %) at <op>`.
[[nodiscard]] std::string check_line(const CheckReport& report);
/// At most `most` contributors.
[[nodiscard]] std::string check_text(const CheckReport& report, std::size_t most);
[[nodiscard]] std::string check_json(const CheckReport& report, std::size_t most);

}  // namespace tidemark::formats
