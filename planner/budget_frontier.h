#pragma once
// What memory buys: the same job planned at budgets below and above the one asked for. Each point is what plan_step
// answers at that budget by itself, at the load of its own plan.

#include <functional>
#include <vector>

#include "planner/planner.h"

namespace tidemark {

struct BudgetPoint {
  Bytes budget_bytes = 0;  ///< per rank, reserves included
  std::vector<RankFigures> ranks;
  StepFigures step;
  [[nodiscard]] bool fits() const;
};

/// Plans at one budget: plan_step, or that with progress.
using PlanAtBudget = std::function<Result<PlanOutcome>(const PlanRequest& request)>;

/// Ascending budgets: that of `request`, whose plan is `planned`, and away from it by a unit, two, four and so on:
/// upwards until nothing is added any more, downwards to the first that does not fit (that is the first point; none
/// below it is looked at), both at most kMostDoublings times. Where nothing is added at the budget asked for, it goes
/// down from the highest peak instead. The unit is a power of two, at least a sixty-fourth of where it sets out: 1 GiB
/// up to 64 GiB. Errors: those of plan_step.
[[nodiscard]] Result<std::vector<BudgetPoint>> budget_frontier(const PlanRequest& request, const PlanOutcome& planned,
                                                               const PlanAtBudget& plan);
/// The budget that a request asks for.
[[nodiscard]] Bytes budget_of(const PlanRequest& request);
inline constexpr int kMostDoublings = 8;

}  // namespace tidemark
