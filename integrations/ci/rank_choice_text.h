#pragma once
// Which ranks a limit or a waiver is for, as a budget file writes them.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"
#include "planner/budget/limit.h"

namespace tidemark::ci {

inline constexpr std::int64_t kMostListedRank = 65535;

/// `all`, `first`, `middle`, `last`, or a list like `0-3,15`: ascending and unique, at most 65535.
/// Errors (bad_input, without a place): another form.
[[nodiscard]] Result<budget::RankChoice> parse_rank_choice(std::string_view text);
[[nodiscard]] std::string rank_choice_text(const budget::RankChoice& choice);

}  // namespace tidemark::ci
