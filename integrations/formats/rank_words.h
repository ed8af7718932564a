#pragma once
// Ranks of a job in words: `rank 3`, `ranks 0-3, 7`. Pure.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tidemark::formats {

/// `rank 3`, `ranks 0-3, 7`; `none` without a rank. REQUIRES: ascending; equal neighbours are said once.
[[nodiscard]] std::string ranks_text(const std::vector<std::int32_t>& ranks);

inline constexpr std::size_t kMostListedRanks = 8;

/// Each by itself: `rank 3`, `ranks 1, 7`, and behind kMostListedRanks how many are not listed: `ranks 0, 1, 2, 3, 4,
/// 5, 6, 7 and 3 more`. REQUIRES: at least one.
[[nodiscard]] std::string listed_ranks_text(const std::vector<std::int64_t>& ranks);

}  // namespace tidemark::formats
