#pragma once
// When the pages of a schedule leave and come back, on a link that takes time for them: as far from the ops that need
// them as the memory allows, so that ops wait least.
//
// Pages out go one after the other as they are ready, and their bytes count until they are over; where the room is
// needed before, an op waits. Pages in begin as late as they still arrive in time one after the other, or as early as
// there is room. Both follow from the order and the limit alone; the scheduler and the simulator say what comes of it.

#include "planner/decide/flat/run_order.h"

namespace tidemark::decide::flat {

/// The same order and pages with gone and back set, so that no position is above `limit` bytes. REQUIRES: the list has
/// a link; the schedule keeps the rules, and with no page taking time it is within the limit. O(positions + pages *
/// (log + positions a page spans)).
[[nodiscard]] RunOrder time_copies(const Problem& problem, RunOrder schedule, Bytes limit);

}  // namespace tidemark::decide::flat
