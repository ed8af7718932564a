#pragma once
// What a plan does with storages, by name: the words of a change from one plan to another.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planner/budget/remedy.h"
#include "planner/planner.h"

namespace tidemark::plan {

/// Of one storage name of a rank, in instances (layers x micro-batches).
struct Moves {
  std::int64_t instances = 0;
  std::int64_t recomputed = 0, swapped = 0;
  std::int64_t offloaded = 0;  ///< rests in host memory from step to step
  friend bool operator==(const Moves&, const Moves&) = default;
};

/// By name; storages that the plan only keeps are listed as well. O(storages + decisions x micro-batches).
[[nodiscard]] std::map<std::string, Moves> moves_of(const RankPlan& plan);

/// What to change to come from some plans to others of the same ranks: an edit for a storage name and what is done with
/// it, ranks together, the one that saves most first. `recompute self_attention.k on pp0-3`; `part of` says that on
/// some rank not all of it is. Saved bytes: by which the row of this name is smaller at the peak of the later plan,
/// on the rank where that is most. REQUIRES: the same ranks in the same order.
[[nodiscard]] std::vector<budget::Edit> edits_between(const PlanRequest& request,
                                                      const std::vector<const RankPlan*>& before,
                                                      const std::vector<const RankPlan*>& after);

}  // namespace tidemark::plan
