#pragma once
// The rule `greedy` for a list: what frees most bytes for its cost is given up first. One descent gives a schedule for
// every budget on its way.

#include "planner/decide/flat/improve.h"
#include "planner/decide/flat/problem.h"

namespace tidemark::decide::flat {

/// From keeping everything down as far as single gaps reach. Beyond a few thousand gaps many are given up at a time, so
/// that the work stays within some 10^8 entries of profiles.
[[nodiscard]] Archive greedy_schedules(const Problem& problem);

}  // namespace tidemark::decide::flat
