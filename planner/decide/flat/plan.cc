#include "planner/decide/flat/plan.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <optional>
#include <utility>

#include "planner/decide/flat/bound.h"
#include "planner/decide/flat/exact_frontier.h"
#include "planner/decide/flat/link_schedules.h"
#include "planner/decide/flat/rerun.h"
#include "planner/decide/flat/search.h"
#include "planner/decide/flat/state.h"

namespace tidemark::decide::flat {
namespace {

PlanStatus judge(const StepPlan& plan) {
  if (plan.outcome.added_cost <= plan.lower_bound_cost) return PlanStatus::optimal;
  constexpr double kNear = 1;
  const std::int64_t gap = plan.outcome.added_cost - plan.lower_bound_cost;
  return plan.percent(gap) <= kNear ? PlanStatus::within : PlanStatus::best_found;
}

}  // namespace

/// Grows as budgets ask for more; what is known once stays.
class StepPlanner::Known {
 public:
  Known(const Problem& problem, const PlanLimits& limits)
      : problem_(problem),
        limits_(limits),
        least_(least_peak(problem_)),
        keep_all_peak_(State(problem_, 0).profile().peak()),
        exact_(problem_,
               limits.prove_small && limits.rule == StepRule::optimal && !problem.has_link ? keep_all_peak_ : 0) {}

  StepPlan within(Bytes budget) {
    StepPlan plan = start(budget);
    if (keep_all_peak_ <= budget) {
      accept(plan, keep_all_order(problem_));
      return plan;
    }
    plan.proven = budget < least_.bytes;
    if (!plan.proven) solve(plan);
    if (!plan.fits()) plan.smallest_known_peak = smallest_peak(plan.proven);
    return plan;
  }

  StepPlan lowest() {
    StepPlan plan = start(keep_all_peak_);
    accept(plan, keep_all_order(problem_));
    const auto take = [&](Bytes peak, const RunOrder& order) {
      if (peak < plan.outcome.peak_bytes) accept(plan, order);
    };
    if (!exact_.points().empty()) take(exact_.points().back().peak_bytes, exact_.points().back().schedule);
    if (linked_ && !linked_->empty()) take(linked_->front().peak_bytes, linked_->front().schedule);
    for (const auto* archive : {&searched_, &looked_at_})
      if (*archive && !(*archive)->all().empty()) {
        const Solution& one = (*archive)->all().front();
        take(one.peak_bytes, useful_schedule(one));
      }
    return plan;
  }

  std::vector<FrontierPoint> frontier() {
    Archive points;  // of either kind, without the schedules
    const auto add = [&](Bytes peak, std::int64_t cost) { points.add({.peak_bytes = peak, .added_cost = cost}); };
    exact_.look_at_all();
    for (const ExactFrontier::Point& point : exact_.points()) add(point.peak_bytes, point.added_cost);
    if (problem_.has_link) {
      for (const LinkSchedule& one : link_schedules()) add(one.peak_bytes, one.added_cost);
    } else {
      for (const Solution& solution : searched().all()) add(solution.peak_bytes, solution.added_cost);
    }
    std::vector<FrontierPoint> frontier;
    for (const Solution& point : points.all())
      frontier.push_back({.peak_bytes = point.peak_bytes, .added_cost = point.added_cost});
    return frontier;
  }

 private:
  [[nodiscard]] StepPlan start(Bytes budget) const {
    return {.budget_bytes = budget,
            .keep_all_peak_bytes = keep_all_peak_,
            .lower_bound_bytes = least_.bytes,
            .lower_bound_op = least_.op,
            .smallest_known_peak = keep_all_peak_,
            .keep_all_cost = problem_.total_cost()};
  }

  [[nodiscard]] SearchLimits search_limits(bool first_look = false) const {
    return {.rule = limits_.rule,
            .effort = limits_.effort,
            .first_look = first_look,
            .should_stop = limits_.should_stop,
            .on_progress = first_look ? nullptr : limits_.on_progress};
  }

  const std::vector<LinkSchedule>& link_schedules() {
    if (!linked_) linked_ = find_link_schedules(problem_, search_limits());
    return *linked_;
  }

  const Archive& searched() {
    if (!searched_) searched_ = find_schedules(problem_, search_limits());
    return *searched_;
  }

  /// The search ends with recomputations that later moves have made useless.
  [[nodiscard]] RunOrder useful_schedule(const Solution& solution) const {
    return schedule_of(problem_, without_useless(problem_, solution));
  }

  void accept(StepPlan& plan, RunOrder schedule) const {
    plan.order = std::move(schedule);
    plan.outcome = carry_out(problem_, plan.order);
    assert(plan.outcome.fault.empty());
    plan.smallest_known_peak = std::min(plan.smallest_known_peak, plan.outcome.peak_bytes);
    plan.status = judge(plan);
  }

  void solve(StepPlan& plan) {
    const Bytes budget = plan.budget_bytes;
    plan.lower_bound_cost = least_added_cost(problem_, budget);
    exact_.look_down_to(budget);
    plan.lower_bound_cost = std::max(plan.lower_bound_cost, exact_.least_added_cost(budget));
    plan.proven = exact_.is_infeasible(budget);
    if (const ExactFrontier::Point* best = exact_.best_within(budget))
      accept(plan, best->schedule);
    else if (!plan.proven)
      choose(plan);
  }

  /// The cheapest of all that was found; of those that cost as little the lowest.
  void choose(StepPlan& plan) {
    if (problem_.has_link) {
      const auto& known = link_schedules();
      const auto above = std::ranges::upper_bound(known, plan.budget_bytes, {}, &LinkSchedule::peak_bytes);
      if (above != known.begin()) accept(plan, (above - 1)->schedule);
      return;
    }
    const Solution* found = searched().best_within(plan.budget_bytes);
    plan.smallest_known_peak = searched().all().front().peak_bytes;
    const ExactFrontier::Point* exact = exact_.cheapest_known(plan.budget_bytes);
    if (exact != nullptr && (found == nullptr || std::pair(exact->added_cost, exact->peak_bytes) <
                                                     std::pair(found->added_cost, found->peak_bytes)))
      accept(plan, exact->schedule);
    else if (found != nullptr)
      accept(plan, useful_schedule(*found));
  }

  /// Of what is known where nothing fits. `first_look`: that is proven, and nobody needs a long search.
  Bytes smallest_peak(bool first_look) {
    Bytes peak = keep_all_peak_;
    if (problem_.has_link) return std::min(peak, link_schedules().front().peak_bytes);
    if (!exact_.points().empty()) peak = std::min(peak, exact_.points().back().peak_bytes);
    if (first_look && !searched_ && !looked_at_) looked_at_ = find_schedules(problem_, search_limits(true));
    const Archive& archive = searched_ || !first_look ? searched() : *looked_at_;
    return std::min(peak, archive.all().front().peak_bytes);
  }

  const Problem& problem_;
  PlanLimits limits_;
  LeastPeak least_;
  Bytes keep_all_peak_;
  ExactFrontier exact_;
  std::optional<Archive> searched_, looked_at_;
  std::optional<std::vector<LinkSchedule>> linked_;  ///< of a list with a link, in their place
};

StepPlanner::StepPlanner(const Problem& problem, const PlanLimits& limits)
    : known_(std::make_unique<Known>(problem, limits)) {}
StepPlanner::~StepPlanner() = default;

StepPlan StepPlanner::within(Bytes budget) {
  return known_->within(budget);
}

StepPlan StepPlanner::lowest() {
  return known_->lowest();
}

std::vector<FrontierPoint> StepPlanner::frontier() {
  return known_->frontier();
}

StepPlan plan_step_within(const Problem& problem, Bytes budget, const PlanLimits& limits) {
  return StepPlanner(problem, limits).within(budget);
}

std::vector<FrontierPoint> frontier_of(const Problem& problem, const PlanLimits& limits) {
  return StepPlanner(problem, limits).frontier();
}

}  // namespace tidemark::decide::flat
