#pragma once
// Whether the two ends of every message mean the same rows. Messages match by tag alone, and simulated devices carry no
// rows, so that two tags exchanged at one end would go unnoticed.

#include <span>

#include "core/result.h"
#include "planner/planner.h"

namespace tidemark::run {

/// Errors (infeasible): a receive whose send is of another micro-batch. Ends without a partner are the step's business:
/// it does not end.
[[nodiscard]] Status check_message_pairs(std::span<const plan::RankPlan> ranks);

}  // namespace tidemark::run
