#pragma once
// How much of a rank's state to offload (docs/design/state_offload.md), and what the rank comes to with that.

#include <memory>
#include <vector>

#include "planner/built_plan.h"
#include "planner/rank_planner.h"

namespace tidemark::plan {

struct OffloadResult {
  std::shared_ptr<decide::RankProblem> problem;
  BuiltPlan best;
  double bound_ns = 0;           ///< with the same state offloaded no plan adds less
  double weighted_bound_ns = 0;  ///< of PlanCost::weighted_ns(); 0: not known
  double ns_per_byte = 0;        ///< price of device memory: what a byte less of budget adds; 0: none was found
};

/// State that may be offloaded, in the order of the updates, as much as host memory holds.
[[nodiscard]] std::vector<StorageId> offloadable_within(const RankRequest& request, Bytes host_budget,
                                                        const RankPlan& plan);

/// Reads plan.graph and plan.liveness, which the problem refers to from then on, and writes what else the search finds:
/// attempts, frontier. Of a brief request there may be no problem: nothing seemed worth a search. Errors (internal): a
/// schedule cannot be made.
[[nodiscard]] Result<OffloadResult> search_offload(const RankRequest& request, const Budgets& budgets, RankPlan& plan);

}  // namespace tidemark::plan
