#pragma once
// Actions of all ranks of a small pipeline chosen together, by the step that they make. Each rank's least weighted cost
// is near the shortest step, no more: a plan of all ranks together (step_relaxation.h) gives gaps up in part, and what
// waits on one rank depends on what the others do.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/result.h"
#include "planner/rank_planner.h"

namespace tidemark::plan {

struct JointChoice {
  std::vector<std::optional<PolicyAnswer>> answers;  ///< by rank; none: the rank's own plan
  std::int64_t own_step_ns = 0;                      ///< with every rank's own plan
  std::int64_t step_ns = 0;                          ///< with the answers
};

/// Lists what each rank may do (rank_options.h) and looks for the combination of the shortest step: ranks exchanged one
/// by one, then all combinations, by branch and bound. Where ranks may do too much to list all of it for each
/// micro-batch, single actions on the longest path are exchanged as well. Work is bounded by tasks played. Plans that
/// are answered have addresses. A large step is left as it is, and nothing is played. `requests`, `ranks`: all of a
/// pipeline, by rank, each of which fits. Errors: those of build_problem, of the scheduler and of simulate_step.
[[nodiscard]] Result<JointChoice> choose_jointly(const std::vector<RankRequest>& requests,
                                                 const std::vector<RankPlan>& ranks);

}  // namespace tidemark::plan
