#pragma once
// Which waiver covers a rank that exceeds a limit.

#include <cstddef>
#include <optional>
#include <string>

#include "core/bytes.h"
#include "integrations/ci/budget_job.h"
#include "integrations/ci/date.h"
#include "integrations/ci/gate_result.h"
#include "integrations/ci/waiver.h"
#include "planner/budget/holdings.h"

namespace tidemark::ci {

struct WaiverMatch {
  WaiverEffect effect = WaiverEffect::none;
  std::optional<std::size_t> waiver;  ///< of the job's; nothing: none is for it
};

/// Of the waivers of this scope that cover this row, and so every rank that it represents: one that holds and allows
/// `bytes`, else one that holds, else one that has expired; ties: the first.
[[nodiscard]] WaiverMatch match_waiver(const BudgetJob& job, const WaiverScope& scope, const budget::Holdings& holdings,
                                       std::size_t row, Bytes bytes, Date today);

/// Why a waiver that no finding needs does nothing: it expired, lists a part of a pipeline stage, is for no rank that
/// is there, or nothing exceeds what it allows.
[[nodiscard]] std::string unneeded_text(const Waiver& waiver, const budget::Holdings& holdings, Date today);

}  // namespace tidemark::ci
