#pragma once
// Why blocks cannot be packed as low as a capacity: a few of them that cannot either.

#include <cstdint>
#include <vector>

#include "planner/layout/exact_search.h"
#include "planner/layout/pack_problem.h"

namespace tidemark::layout {

/// Rows of items, ascending, that no packing holds below the capacity, or nothing if that is not shown within the
/// limits. Where more bytes live at one moment than there are, as few items of it as exceed them; else none can be left
/// out, as far as the limits let that be shown. REQUIRES: no find_contradiction(problem).
[[nodiscard]] std::vector<std::int32_t> cannot_fit(const PackProblem& problem, Bytes capacity, const FitLimits& limits);

}  // namespace tidemark::layout
