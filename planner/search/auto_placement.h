#pragma once
// `placement: auto`: layers and the main output head where the modelled step is shortest and every rank's memory
// suffices.
//
// Placements are found by their schedules of passes (placement_search.h). The fastest eight within a quarter of the
// best are compared op by op with everything kept. Of the first four, the one is taken whose ranks likely to be short
// of memory can be planned and whose step, with what that adds to one of them, is shortest: where nothing that follows
// can be shorter, it is not looked at. Where none of the first four fits, those found with most memory to spare are
// tried in their stead, so memory is no part of the search itself.

#include <cstdint>
#include <string>

#include "core/result.h"
#include "planner/planner.h"
#include "planner/search/placement_search.h"

namespace tidemark::search {

struct AutoPlacement {
  Placement placement;
  std::int64_t passes_ns = 0;  ///< its schedule of passes
  std::int64_t bound_ns = 0;   ///< no placement's schedule of passes is shorter
  std::int64_t played = 0;     ///< placements whose passes were played
  std::size_t misfit = 0;      ///< placements passed over because a rank did not fit
  bool fits = true;            ///< false: of the placements tried none fits, and this is the fastest of them
  [[nodiscard]] bool proven() const { return passes_ns <= bound_ns; }
};

/// Places the layers of `request.job`, which keeps everything else. Load, budgets and policy of the request count.
/// Errors: those of plan_step. REQUIRES: find_problems(request.job) is empty; a policy.
[[nodiscard]] Result<AutoPlacement> place_automatically(plan::PlanRequest& request, const PlacementEffort& effort = {});

/// `30x2, 1, 0 layers by stage, main head on stage 30; ...`: one line for people, with the proof or the gap.
[[nodiscard]] std::string describe(const AutoPlacement& placed);

}  // namespace tidemark::search
