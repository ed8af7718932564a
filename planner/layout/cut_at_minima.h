#pragma once
// Temporal decomposition: the clock is cut where least is alive. What lives across a cut is placed first; what is left
// of one section never meets what is left of another, so each is packed for itself, the few that need it by search.
//
//   bytes ^        |cut       |cut
//         |  aa  bb|   c  dd  | ee f     the blocks of a section
//         | =======|==========|===       across: placed first, fixed for all sections
//         +--------+----------+--------> clock

#include <cstdint>
#include <span>
#include <vector>

#include "planner/layout/blocks.h"

namespace tidemark::layout {

/// Moments to cut at, ascending: the least load near the middle of a section, again and again, until sections have
/// some hundred blocks or half of the load lives across. O(n log n).
[[nodiscard]] std::vector<std::int32_t> cuts_at_minima(std::span<const PackItem> hulls);

/// Lowers `packing`, a packing of the problem, if packing between cuts does. More work never makes it higher. `goal`:
/// no section is searched that is as low. Returns whether it did. REQUIRES: blocks of the problem.
bool pack_between_cuts(const PackProblem& problem, const Blocks& blocks, Bytes goal, const PackLimits& limits,
                       Packing& packing);

}  // namespace tidemark::layout
