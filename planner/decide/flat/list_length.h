#pragma once
// Lengths of lists, in ops, at which the search goes about it in another way.

#include <cstdint>

namespace tidemark::decide::flat {

/// Up to it every change is cheap, and its least cost is asked for: searched hot, several times over, also anew.
inline constexpr std::int32_t kFewOps = 100;
/// Beyond it the decision core's choice over all gaps takes longer than a first look may, passes need an index of what
/// is in memory, and the searches that one answer takes share the work that a shorter list gives to each.
inline constexpr std::int32_t kLongOps = 600;
/// Beyond it passes are all there is time for.
inline constexpr std::int32_t kManyOps = 5000;

}  // namespace tidemark::decide::flat
