#pragma once
// What the ranks of a plan hold, in the words of budgets: one row a storage template, wherever in the model its
// instances are, with the keys of the job that decide its size.
//
// At the half-step of the compute clock with the most device bytes (schedule::peak_clock) a rank holds
//
//   peak_bytes = reserve + bytes alive + what addresses take above them
//
// which are the rows of role categories, rows named `reserve.*`, and one row `fragmentation`. The arena is as high all
// step as at its peak, so that phases are compared by what is alive in them: by_phase is the highest of a phase, with
// the same reserve and the same height above bytes alive. The phase of the peak has peak_bytes.

#include <string>

#include "planner/budget/holdings.h"
#include "planner/planner.h"

namespace tidemark::plan {

/// Name of the row of what addresses take above the bytes alive (Category::cached).
inline constexpr std::string_view kFragmentation = "fragmentation";

/// One rank. `request`: what the plan was made for, or formats::request_of its file; its policy is not looked at.
/// Controls have no file: their text is a dotted key of the job (storage_controls.h). Pure.
/// O(residencies + clock + storages at the peak x log).
[[nodiscard]] budget::RankHoldings rank_holdings(const PlanRequest& request, const RankPlan& plan);

/// All ranks of a plan, with a note on the expert load that they have memory for, where loads vary. REQUIRES: at least
/// one rank.
[[nodiscard]] budget::Holdings holdings_of(const PlanRequest& request, const PlanOutcome& outcome, std::string source);

}  // namespace tidemark::plan
