#pragma once
// What memory buys: the same job planned at budgets below and above the one asked for, all at one load. Each point is
// what plan_step answers at that budget by itself, or at a tighter one where that step is shorter: a plan that fits
// less memory fits more.

#include <functional>
#include <vector>

#include "planner/planner.h"

namespace tidemark::plan {

struct BudgetPoint {
  Bytes budget_bytes = 0;   ///< per rank, reserves included
  Bytes planned_bytes = 0;  ///< that the plan was made for: at most budget_bytes
  std::vector<RankFigures> ranks;
  StepFigures step;
  [[nodiscard]] bool fits() const;
};

/// Plans at one budget: plan_step, or that with progress.
using PlanAtBudget = std::function<Result<PlanOutcome>(const PlanRequest& request)>;

/// Ascending budgets, and no step longer than one at less memory: that of `request`, whose plan is `planned`, and
/// others, away by a unit, two, four and so on from where memory begins to matter: the budget asked for; where nothing
/// is added there the highest peak; where it does not fit, the smallest budget that is known to do. Upwards until
/// nothing is added or more memory changes nothing, downwards to the first that does not fit, either way at most
/// kMostDoublings times. The unit is a power of two, from a sixty-fourth of where it sets out to twice that.
/// `request.load` is that of `planned`. Errors: those of plan_step.
[[nodiscard]] Result<std::vector<BudgetPoint>> budget_frontier(const PlanRequest& request, const PlanOutcome& planned,
                                                               const PlanAtBudget& plan);
/// The budget that a request asks for.
[[nodiscard]] Bytes budget_of(const PlanRequest& request);
inline constexpr int kMostDoublings = 8;

}  // namespace tidemark::plan
