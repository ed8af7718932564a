#pragma once
// What was asked, in one line each: the heads of the text summary and of the report.

#include <string>

#include "planner/planner.h"

namespace tidemark::formats {

/// The name of the model, or of the captured step.
[[nodiscard]] std::string step_name_of(const plan::PlanRequest& request);

/// `TP8 PP16 VPP2 EP4 DP48, 64 micro-batches of 2 x 8192 tokens`.
[[nodiscard]] std::string layout_text(const plan::PlanRequest& request);

/// `budget 60.97 GiB, pinned host memory 64.00 GiB per device, policy optimal, expert load f 1.50`.
[[nodiscard]] std::string limits_text(const plan::PlanRequest& request, const plan::PlanOutcome& outcome);

/// The device budget and the host budget a request comes to.
[[nodiscard]] Bytes device_budget_of(const plan::PlanRequest& request);
[[nodiscard]] Bytes host_budget_of(const plan::PlanRequest& request);

/// The rank that exceeds its budget most; without one, the rank with the highest peak. REQUIRES: at least one rank.
[[nodiscard]] const plan::RankPlan& tightest_rank(const plan::PlanOutcome& outcome);

/// What would do for a rank that does not fit, as far as is known: `smallest budget that this policy meets: 5.04 GiB`,
/// a host budget that would do with the device budget as it is, or both. Rounded up. Empty where nothing is known.
[[nodiscard]] std::string enough_text(const plan::RankFigures& figures);

/// `16 of 16 ranks fit 60.97 GiB; the tightest is rank 0 with 0.12 GiB to spare`, or what is over by how much and
/// where.
[[nodiscard]] std::string verdict_text(const plan::PlanRequest& request, const plan::PlanOutcome& outcome);

}  // namespace tidemark::formats
