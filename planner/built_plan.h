#pragma once
// What a policy answers for one rank, carried all the way to addresses, and the budgets that it is held against.

#include <functional>
#include <memory>
#include <string_view>

#include "planner/decide/gaps/plan_cost.h"
#include "planner/decide/rank_problem.h"
#include "planner/policy.h"
#include "planner/rank_planner.h"

namespace tidemark::plan {

/// Of a budget: addresses take a little more than the bytes alive.
inline constexpr Bytes kPackingShare = 56;

/// Budgets of one rank.
struct Budgets {
  Bytes device = 0;   ///< total less reserve
  Bytes host = 0;     ///< pinned
  Bytes reserve = 0;  ///< device memory that no allocator of ours owns
  Bytes total = 0;
};
[[nodiscard]] Budgets budgets_of(const PlanRequest& request);

/// Whether the work on a given step is to end; empty: it is not asked, as of a job.
[[nodiscard]] std::function<bool()> stop_question(const PlanRequest& request);

/// What a rank's search is about, with the state offloaded that the choice says. It refers to plan.graph and
/// plan.liveness.
[[nodiscard]] std::unique_ptr<decide::RankProblem> make_problem(
    const RankRequest& request, const Budgets& budgets, const RankPlan& plan, decide::sites::OffloadChoice choice = {},
    decide::sites::RunTime run_time = decide::sites::RunTime::late);

/// When recomputation runs where that is not a trial.
[[nodiscard]] decide::sites::RunTime first_run_time(const Policy& policy);

struct BuiltPlan {
  Plan plan;
  std::string_view rule;  ///< that answered it; empty: a last resort
  decide::gaps::PlanCost cost;
  Schedule schedule;
  Layout layout;
  std::int64_t policy_added_ns = 0;  ///< what it adds by the policy's own account
  /// The schedule adds more by a fifth than what it was chosen for.
  [[nodiscard]] bool is_misjudged() const { return cost.added_ns() - policy_added_ns > policy_added_ns / 5; }
  [[nodiscard]] Bytes height() const { return layout.arenas.front().height_bytes; }
  [[nodiscard]] Bytes host_height() const { return layout.arenas.size() > 1 ? layout.arenas[1].height_bytes : 0; }
};

/// Errors (internal): the scheduler refuses the answer.
[[nodiscard]] Result<BuiltPlan> build_plan(decide::RankProblem& problem, const PolicyAnswer& answer,
                                           const Budgets& budgets, const PlanRequest& request);

[[nodiscard]] bool fits(const BuiltPlan& built, const Budgets& budgets);
/// One that fits, then the one of least weighted cost, or else the lowest.
[[nodiscard]] bool is_better(const BuiltPlan& a, const BuiltPlan& b, const Budgets& budgets);

}  // namespace tidemark::plan
