#pragma once
// An independent look at a packing: shares no code with the packers.

#include <optional>
#include <string>

#include "planner/layout/packer.h"

namespace tidemark::layout {

/// The first fault found, in words, or nothing: wrong count, misaligned or negative offsets, items of a block at
/// different addresses, fixed items elsewhere, items that share bytes though they live together or must be kept apart,
/// or a height that is not the highest byte used. O(n log n + pairs kept apart).
[[nodiscard]] std::optional<std::string> find_fault(const PackProblem& problem, const Packing& packing);

}  // namespace tidemark::layout
