#pragma once
// Lengths of steps, in ops, from which the search works differently.

#include <cstdint>

namespace tidemark::decide::flat {

/// Up to it every change is cheap, and the least cost is asked for: searched hot, several times over, also anew.
inline constexpr std::int32_t kFewOps = 100;
/// Up to it a proof of the least cost is tried.
inline constexpr std::int32_t kMostProvenOps = 110;
/// Beyond it the decision core's choice over all gaps takes longer than quick mode may, eviction passes need an index
/// of what is in memory, and the searches that one answer takes share the work that a shorter step gives to each.
inline constexpr std::int32_t kLongOps = 600;
/// Beyond it a search for all budgets has time for eviction passes only.
inline constexpr std::int32_t kManyOps = 5000;

}  // namespace tidemark::decide::flat
