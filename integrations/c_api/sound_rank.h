#pragma once
// A rank of a plan file that may run: a file says anything, so what runs is checked against the graph it was made for.

#include <cstdint>
#include <memory>

#include "core/result.h"
#include "integrations/c_api/handles.h"
#include "integrations/c_api/outcome.h"
#include "planner/planner.h"

namespace tidemark::c_api {

/// INVALID: no plan, or no such rank.
[[nodiscard]] Outcome rank_at(const tidemark_plan* plan, std::int32_t position, const formats::PlanFile::Rank*& rank);

/// Errors (bad_input): the program is not sound, in one line that names file and rank.
[[nodiscard]] Result<std::unique_ptr<plan::RankPlan>> sound_rank(const tidemark_plan& plan,
                                                                 const formats::PlanFile::Rank& rank);

}  // namespace tidemark::c_api
