#pragma once
// The ranks of a plan that a run asks for, and the step that the plan's own simulator makes of them.

#include <cstdint>
#include <optional>
#include <span>

#include "core/result.h"
#include "planner/planner.h"
#include "planner/simulate/simulator.h"

namespace tidemark::run {

/// Nothing asked: all. Empty: the plan does not hold the rank.
[[nodiscard]] std::span<const plan::RankPlan> ranks_of(const plan::PlanOutcome& plan, std::optional<std::int32_t> rank);

/// bad_input that says which ranks the plan holds.
[[nodiscard]] Error no_such_rank(const plan::PlanOutcome& plan, std::optional<std::int32_t> rank);

/// What the plan's simulator says of each rank, if every rank is there.
[[nodiscard]] std::optional<simulate::StepTiming> simulated(const plan::PlanOutcome& plan);

}  // namespace tidemark::run
