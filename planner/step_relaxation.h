#pragma once
// What all ranks of a step do together, before any of them decides: a plan in which gaps may be given up in part, with
// a short step. Frank and Wolfe's method (1956): by how much the step gets longer with work in each place is the mean
// of its longest paths so far; each rank answers with its cheapest fractional plan at these weights, by prices of
// memory (decide/gaps/relaxation.h); a part of that goes into the plan so far, of which the step has its next longest
// path. Ranks answer in parallel, and no order of theirs counts.

#include <span>
#include <vector>

#include "planner/decide/rank_problem.h"
#include "planner/simulate/longest_path.h"

namespace tidemark::plan {

/// One rank of the step, with what it may hold.
struct RelaxedRank {
  decide::RankProblem* problem = nullptr;  ///< not flat
  Bytes device_budget = 0, host_budget = 0;
};

struct StepRelaxation {
  simulate::PerComputeTask weights;               ///< of all ranks: what the step pays of each ns that is added, 0 to 1
  std::vector<decide::gaps::SearchStart> starts;  ///< of the ranks asked for: the plan, rounded
  double added_ns = 0;                            ///< by the plan before it is rounded, to the step
};

/// `works`: of all ranks of the step, everything kept. REQUIRES: simulate_step(works) succeeds. `is_brief`: fewer
/// rounds. Any thread.
[[nodiscard]] StepRelaxation relax_step(std::span<const simulate::RankWork> works, std::span<const RelaxedRank> ranks,
                                        bool is_brief);

}  // namespace tidemark::plan
