#pragma once
// Whether the ranks that a limit names are ranks of the job.

#include <optional>
#include <string>

#include "planner/budget/holdings.h"
#include "planner/budget/limit.h"

namespace tidemark::ci {

/// Why a choice names a rank that is not there, or no rank: `rank 99 is none of the job's, which has ranks 0 to 15`.
/// Nothing: all it names are there, or the source does not say which there are (of a measured run: some are missing).
[[nodiscard]] std::optional<std::string> absent_ranks(const budget::Holdings& holdings,
                                                      const budget::RankChoice& choice);

/// Why a limit could be held against no rank, or not against all of its own.
[[nodiscard]] std::string why_not_held(const budget::Holdings& holdings, const budget::Limit& limit);

}  // namespace tidemark::ci
