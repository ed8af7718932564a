#pragma once
// What is tried where the search at the budget itself found nothing that fits. Targets here depend on the step and not
// on the budget, so that budgets a little apart come to the same plans: one that is shown to be enough is enough when
// it is asked for.

#include <optional>
#include <vector>

#include "planner/offload_loop.h"

namespace tidemark::plan {

struct Heights {
  Bytes device = 0, host = 0;
};

struct LastResort {
  OffloadResult best;           ///< its bound_ns is 0: not known
  std::vector<Heights> enough;  ///< of plans that are found again by who asks for as much
};

/// What the policy and the rules beside it come to where they are asked for as little device memory as can be, and
/// searches for a little less: than the budget, where that is near, and than the lowest of these. Errors (internal): a
/// schedule cannot be made.
[[nodiscard]] Result<LastResort> try_last_resort(const RankRequest& request, const Budgets& budgets, RankPlan& plan);

/// The same without a search at the budget, where all of these plans are far above it: no search comes down there, and
/// most of the time would go to it. Where what never leaves the device exceeds the budget already, or the request is
/// tentative, only what the policy comes to at last, without searches for a little less. Nothing: a search may fit, or
/// the request is brief, of a fixed policy or of a given step. Errors (internal): a schedule cannot be made.
[[nodiscard]] Result<std::optional<LastResort>> refuse_far_budget(const RankRequest& request, const Budgets& budgets,
                                                                  RankPlan& plan);

}  // namespace tidemark::plan
