#pragma once
// One pipeline rank from graph to verified program. Where a layout overflows the budget, the target is tightened and
// the policy asked again, a bounded number of times, each attempt reported. Pure; ranks are independent once the
// nominal timeline is known.

#include <memory>
#include <optional>
#include <span>

#include "planner/planner.h"

namespace tidemark::plan {

struct RankRequest {
  const PlanRequest& request;
  const simulate::Timeline& nominal;  ///< of this rank, everything kept
  std::vector<std::int64_t> op_ns;    ///< per op
  double load = 1.0;
  std::span<const float> weights;                    ///< of what is added, per compute op (step_relaxation.h); empty: 1
  const decide::gaps::SearchStart* start = nullptr;  ///< of its gaps, from all ranks together
  std::shared_ptr<decide::RankProblem> problem;      ///< of PreparedRank, or made here
  const Rule* rule = nullptr;  ///< asked alone, with all state on the device, in place of the policy and its fallbacks
  bool wants_offers = false;   ///< RankPlan::offers
  bool is_tentative = false;   ///< where the search finds nothing that fits, nothing else is tried or explained
};

/// A rank analysed, before anything is decided.
struct PreparedRank {
  std::unique_ptr<RankPlan> plan;                ///< its graph and liveness
  std::shared_ptr<decide::RankProblem> problem;  ///< with all state on the device; it refers to `plan`
};
/// Errors (internal): that everything is kept cannot be scheduled.
[[nodiscard]] Result<PreparedRank> prepare_rank(Graph graph, const RankRequest& request);

/// Fills everything of the RankPlan but task_ns-dependent simulation results. Errors (internal): a stage failed or the
/// verifier refused what was built.
[[nodiscard]] Result<RankPlan> plan_rank(Graph graph, const RankRequest& request);
/// The same, of a rank that was prepared.
[[nodiscard]] Result<RankPlan> plan_rank(PreparedRank prepared, RankRequest request);

/// The schedule of a fixed policy, which depends neither on the budgets nor on the load; nothing: it keeps everything.
/// `plan`: its graph alone is filled, the liveness is. REQUIRES: request.policy->is_fixed. Errors: as plan_rank().
[[nodiscard]] Result<std::optional<Schedule>> fixed_schedule(const RankRequest& request, RankPlan& plan);

}  // namespace tidemark::plan
