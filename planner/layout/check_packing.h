#pragma once
// An independent look at a packing: shares no code with the packers.

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "planner/layout/packer.h"

namespace tidemark::layout {

/// The first fault found, in words, or nothing: wrong count, misaligned or negative offsets, items of a block at
/// different addresses, fixed items elsewhere, items that share bytes though they live together or must be kept apart,
/// or a height that is not the highest byte used. O(n log n + pairs kept apart).
[[nodiscard]] std::optional<std::string> find_fault(const PackProblem& problem, const Packing& packing);

/// Items of two blocks that live together and share bytes, the lower row first, or nothing. kAnywhere: lies nowhere.
[[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> find_shared(const PackProblem& problem,
                                                                             std::span<const Bytes> offsets);
/// A pair of `apart` that shares bytes.
[[nodiscard]] std::optional<std::pair<std::int32_t, std::int32_t>> find_shared_apart(const PackProblem& problem,
                                                                                     std::span<const Bytes> offsets);

}  // namespace tidemark::layout
