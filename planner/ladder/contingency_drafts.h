#pragma once
// Every contingency that one gap class of a program could have, before it is decided which are worth it.

#include <cstdint>
#include <vector>

#include "core/program.h"
#include "planner/decide/sites/evaluator.h"
#include "planner/decide/sites/problem.h"

namespace tidemark::ladder {

/// One storage of a class across its gap. Host offset and freed bytes are still open.
struct ContingencyDraft {
  Contingency contingency;
  std::int32_t from = 0, until = 0;            ///< half-steps in which its bytes are given back
  std::int32_t host_from = 0, host_until = 0;  ///< swap: half-steps in which the copy holds host memory
  std::int64_t link_ns = 0;                    ///< swap: one direction
  std::vector<ContingencyStep> steps;          ///< recompute
  std::vector<ResidencyId> sources;            ///< recompute: must be in memory where the steps run
};

/// A routed storage of one chunk and layer that the plan keeps, over all micro-batches.
struct ContingencyClass {
  std::vector<ContingencyDraft> swaps, recomputes;  ///< where possible; one a storage
  std::int64_t swap_link_ns = 0;                    ///< one direction, of all its swaps
  bool recompute_first = false;                     ///< recomputing takes less time from the compute lane
};

/// Classes with at least one draft, in the order of the problem's classes and slots. O(touches + gaps).
[[nodiscard]] std::vector<ContingencyClass> draft_contingencies(const decide::sites::DecisionProblem& problem,
                                                                const decide::gaps::Choice& choice,
                                                                const Program& program);

}  // namespace tidemark::ladder
