#pragma once
// One problem of a rank, searched: where the addresses of an answer overflow the budget, the target is tightened and
// the policy asked again, a bounded number of times.

#include <optional>

#include "planner/built_plan.h"
#include "planner/decide/gaps/prices.h"
#include "planner/rank_planner.h"

namespace tidemark::plan {

struct TargetResult {
  BuiltPlan best;                              ///< one that fits, then the one of least weighted cost, then the lowest
  double bound_ns = 0;                         ///< no plan within the budgets adds less
  double weighted_bound_ns = 0;                ///< of PlanCost::weighted_ns()
  std::optional<decide::gaps::Prices> prices;  ///< of memory, at the first target, if the policy found any
};

/// `plan` is told of every attempt. Errors (internal): the scheduler refuses an answer. REQUIRES: problem.check() found
/// nothing.
[[nodiscard]] Result<TargetResult> search_targets(const RankRequest& request, decide::RankProblem& problem,
                                                  const Budgets& budgets, RankPlan& plan);

}  // namespace tidemark::plan
