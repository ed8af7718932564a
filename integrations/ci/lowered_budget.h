#pragma once
// How far a limit can be lowered and still be kept with its tolerance.

#include <optional>
#include <string>

#include "core/bytes.h"
#include "integrations/ci/judgement.h"
#include "planner/budget/growth.h"
#include "planner/budget/limit.h"

namespace tidemark::ci {

/// The least limit that `bytes` keep with PASS: no nearer to it than the tolerance, and no band above it.
/// REQUIRES: bytes and band_bytes >= 0.
[[nodiscard]] Bytes least_passing_limit(Bytes bytes, Bytes band_bytes, const budget::Tolerance& near);

/// `the budget can be lowered to 56.10 GiB: ...`, where the highest peak fell below the baseline by more than growth is
/// allowed to rise above it, and below all its runs; nothing: it did not, or a rank is missing.
/// `input`: its holdings and its baseline as they are judged (judged_holdings).
[[nodiscard]] std::optional<std::string> lowered_budget_notice(const JobInput& input, const budget::Growth& growth);

}  // namespace tidemark::ci
