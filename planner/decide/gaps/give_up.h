#pragma once
// The choice that needs about the least device memory there is, whatever it costs.

#include "planner/decide/gaps/gap_problem.h"

namespace tidemark::decide::gaps {

/// Everything with a recipe is recomputed, and the rest swapped as far as host memory holds it, in the order of
/// `problem.moves`. O(moves * log(positions)).
[[nodiscard]] Choice give_up_all(const GapProblem& problem, Bytes host_budget);

}  // namespace tidemark::decide::gaps
