#pragma once
// One pipeline rank from graph to verified program. Pure; ranks are independent once the nominal timeline is known.

#include "planner/planner.h"

namespace tidemark {

struct RankRequest {
  const PlanRequest& request;
  const Timeline& nominal;          ///< of this rank, everything kept
  std::vector<std::int64_t> op_ns;  ///< per op
  double load = 1.0;
};

/// Fills everything of the RankPlan but task_ns-dependent simulation results. Errors (internal): a stage failed or the
/// verifier refused what was built.
[[nodiscard]] Result<RankPlan> plan_rank(Graph graph, const RankRequest& request);

}  // namespace tidemark
