#pragma once
// Site classes as the decision core sees them: every site unfolded, units of one class and recipe of one kind.

#include "planner/decide/gaps/gap_problem.h"
#include "planner/decide/sites/problem.h"

namespace tidemark::decide::sites {

/// Positions are half-steps, gaps are rows of DecisionProblem::gaps. Per class, site and unit the recompute (if any),
/// then the swaps that leave room for two copies. Times in ns; a recompute costs at least its compute time less what
/// can be hidden of it, a swap its copy overhead, weighted (GapRow::weight).
[[nodiscard]] gaps::GapProblem gap_problem_of(const DecisionProblem& problem);
/// Its costs at the weights of now.
void weigh_costs(const DecisionProblem& problem, gaps::GapProblem& gaps);
/// The same without moves, at the cost of all that is added: for bounds of that.
[[nodiscard]] gaps::GapProblem at_full_cost(const gaps::GapProblem& weighted);

}  // namespace tidemark::decide::sites
