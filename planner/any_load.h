#pragma once
// Up to which expert load every step of a plan completes. Routing has a worst case: every token sends as many of its
// top-k to one device as that device holds experts. What does not fit whole runs in chunks (core/row_sections.h), in
// the slot that the plan has for it. So there is no limit in between to look for: either each layer that routes can run
// in chunks at the worst load, and no step fails for its loads, or nothing is promised.

#include <string>

#include "planner/planner.h"

namespace tidemark::plan {

struct AnyLoad {
  double worst_load_f = 0;  ///< RankFigures::worst_load_f
  std::string reason;       ///< which layer cannot run in chunks, and why; empty: all can
};

/// REQUIRES: the program is complete, and figures.fits is set. O(tasks + touches + sections).
[[nodiscard]] AnyLoad any_load(const PlanRequest& request, const RankPlan& plan);

}  // namespace tidemark::plan
