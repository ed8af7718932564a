#pragma once
// Why a rank does not fit, and what budgets would do.

#include "planner/last_resort.h"
#include "planner/rank_planner.h"

namespace tidemark::plan {

/// Fills reason, the smallest budgets that the policy is known to meet and what is proven (RankFigures); the other
/// figures stand already. `built`: the best plan found, of that problem, which does not fit; `enough`: of LastResort.
/// Errors (internal): a schedule cannot be made.
[[nodiscard]] Status explain_misfit(const RankRequest& request, decide::RankProblem& problem, const Budgets& budgets,
                                    const BuiltPlan& built, const std::vector<Heights>& enough, RankPlan& plan);

}  // namespace tidemark::plan
