#pragma once
// Why a rank does not fit, and what budgets would do.

#include "planner/built_plan.h"
#include "planner/rank_planner.h"

namespace tidemark::plan {

/// Fills reason, the smallest budgets that the policy is known to meet and what is proven (RankFigures); the other
/// figures stand already. `built`: the best plan found, of that problem. Errors (internal): a schedule cannot be made.
[[nodiscard]] Status explain_misfit(const RankRequest& request, decide::RankProblem& problem, const Budgets& budgets,
                                    const BuiltPlan& built, RankPlan& plan);

}  // namespace tidemark::plan
