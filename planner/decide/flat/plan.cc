#include "planner/decide/flat/plan.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "planner/decide/flat/aimed.h"
#include "planner/decide/flat/bound.h"
#include "planner/decide/flat/exact.h"
#include "planner/decide/flat/exact_frontier.h"
#include "planner/decide/flat/known_repeats.h"
#include "planner/decide/flat/link_schedules.h"
#include "planner/decide/flat/link_search.h"
#include "planner/decide/flat/list_length.h"
#include "planner/decide/flat/parted_progress.h"
#include "planner/decide/flat/recompute.h"
#include "planner/decide/flat/search.h"
#include "planner/decide/flat/state.h"

namespace tidemark::decide::flat {
namespace {

constexpr double kAimedWork = 2.5e8;  // entries of profiles looked at for one budget
constexpr double kShortShare = 2;     // of lists that are not long, where any change is cheap
constexpr double kAgainShare = 0.25;
constexpr double kLowShare = 0.1;     // of the work of a first look, where budgets are searched by themselves
constexpr double kFarFromBound = 30;  // percent of the whole step's cost
constexpr double kWithinReach = 1.1;  // times the budget: a peak from which it may be reached
constexpr double kAimedShare = 0.9;   // of the progress, where only a first look may follow ...
constexpr double kEvenShare = 0.5;    // ... and where a search for all budgets may
constexpr double kFirstWork = 4e7;    // of the search that a proof sets out from, where one is tried
constexpr double kProofWork = 1e8;    // ways to make room that it looks at
constexpr double kMostProofs = 8;     // times that, whatever the effort: states take memory
constexpr double kNearBound = 2e-4;   // of the whole step's cost above the bound: nothing more is looked for

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
        progress_(limits.on_progress, shares_of_stages()),
        repeats_(problem),
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
    for (const auto* linked : {&linked_, &linked_low_})
      if (*linked && !(*linked)->empty()) take((*linked)->front().peak_bytes, (*linked)->front().schedule);
    for (const LinkSchedule& one : aimed_linked_) take(one.peak_bytes, one.schedule);
    for (const Archive* archive : {searched_ ? &*searched_ : nullptr, looked_at_ ? &*looked_at_ : nullptr, &aimed_})
      if (archive != nullptr && !archive->all().empty()) {
        const Solution& one = archive->all().front();
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

  /// Whose progress is told, one after the other.
  enum class Stage : std::uint8_t { one_budget, all_budgets };
  /// How the progress is divided among them. What is not needed is done at once, at the end.
  [[nodiscard]] std::vector<double> shares_of_stages() const {
    if (!is_aimed()) return {0, 1};
    const double one_budget = may_be_tight() ? kEvenShare : kAimedShare;
    return {one_budget, 1 - one_budget};
  }

  [[nodiscard]] SearchLimits search_limits(Stage stage) {
    return {.rule = limits_.rule,
            .effort = limits_.effort,
            .should_stop = limits_.should_stop,
            .on_progress = progress_.part(static_cast<std::size_t>(stage)),
            .on_better = nullptr};
  }
  /// Of a search for the budget of that plan.
  [[nodiscard]] SearchLimits aimed_limits(const StepPlan& plan) {
    SearchLimits limits = search_limits(Stage::one_budget);
    limits.on_better = [this, bound = plan.lower_bound_cost](std::int64_t added) { tell_better(added, bound); };
    return limits;
  }
  void tell_better(std::int64_t added, std::int64_t bound) {
    if (!limits_.on_better || (told_better_ && added >= *told_better_)) return;
    told_better_ = added;
    limits_.on_better(added, bound);
  }
  [[nodiscard]] SearchLimits first_look_limits() const {
    return {.rule = limits_.rule,
            .effort = limits_.effort * (is_aimed() ? kLowShare : 1),
            .first_look = true,
            .should_stop = limits_.should_stop,
            .on_progress = nullptr,
            .on_better = nullptr};
  }
  [[nodiscard]] bool stopped() const { return limits_.should_stop && limits_.should_stop(); }

  const std::vector<LinkSchedule>& link_schedules(bool first_look = false) {
    std::optional<std::vector<LinkSchedule>>& linked = first_look ? linked_low_ : linked_;
    if (!linked)
      linked = find_link_schedules(problem_, first_look ? first_look_limits() : search_limits(Stage::all_budgets));
    return *linked;
  }

  const Archive& searched() {
    if (!searched_) searched_ = find_schedules(problem_, search_limits(Stage::all_budgets));
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

  /// Few ops whose copies take time are searched for all budgets: no proof ends a search for one there.
  [[nodiscard]] bool is_aimed() const {
    return limits_.aimed && limits_.rule == StepRule::optimal && (problem_.op_count > kFewOps || may_be_proven());
  }
  /// What a proof may end at: steps whose states are few enough.
  [[nodiscard]] bool may_be_proven() const {
    return limits_.prove_small && !problem_.has_link && problem_.op_count <= kMostProvenOps &&
           problem_.storage_count <= kMostExactStorages;
  }

  /// Less work for each budget after the first, which are asked for where addresses took more than the bytes alive:
  /// what is known is close.
  [[nodiscard]] double aimed_work() const {
    const bool is_short = problem_.op_count <= kLongOps && !problem_.has_link;
    return kAimedWork * (is_short ? kShortShare : 1) * limits_.effort * (aimed_at_.size() > 1 ? kAgainShare : 1);
  }

  /// So close to the bound that nothing more is looked for.
  [[nodiscard]] static std::int64_t enough_cost(const StepPlan& plan) {
    return plan.lower_bound_cost + static_cast<std::int64_t>(kNearBound * static_cast<double>(plan.keep_all_cost));
  }

  void aim_at(const StepPlan& plan) {
    if (std::ranges::find(aimed_at_, plan.budget_bytes) != aimed_at_.end()) return;
    aimed_at_.push_back(plan.budget_bytes);
    if (problem_.has_link) {
      if (!link_search_) link_search_.emplace(problem_);
      std::vector<LinkSchedule> found =
          link_search_->within(plan.budget_bytes, aimed_work(), search_limits(Stage::one_budget));
      std::ranges::move(found, std::back_inserter(aimed_linked_));
      return;
    }
    search_within(
        problem_,
        {.budgets = {plan.budget_bytes}, .enough_cost = enough_cost(plan), .work = aimed_work(), .repeats = &repeats_},
        aimed_limits(plan), aimed_);
  }

  /// A quick search, and the proof that nothing is cheaper, or what is. False: that takes too long.
  bool prove(StepPlan& plan) {
    SearchLimits search = aimed_limits(plan);
    search.on_progress = nullptr;
    search_within(problem_, {.budgets = {plan.budget_bytes}, .work = kFirstWork * limits_.effort, .repeats = &repeats_},
                  search, aimed_);
    accept_cheaper(plan, aimed_);
    if (plan.status == PlanStatus::optimal || stopped()) return plan.status == PlanStatus::optimal;
    const double effort = std::min(limits_.effort, kMostProofs);
    ExactLimits limits{.most_work = static_cast<std::int64_t>(kProofWork * effort), .should_stop = limits_.should_stop};
    limits.most_states = static_cast<std::int64_t>(static_cast<double>(limits.most_states) * std::max(1.0, effort));
    if (plan.fits()) {
      limits.likely_added = plan.outcome.added_cost;
      limits.most_added = plan.outcome.added_cost - 1;
    }
    const ExactAnswer exact = solve_exactly(problem_, plan.budget_bytes, limits);
    plan.lower_bound_cost = std::max(plan.lower_bound_cost, exact.least_added_cost);
    if (!exact.schedule.order.empty()) {
      accept(plan, exact.schedule);
      tell_better(plan.outcome.added_cost, plan.lower_bound_cost);
    }
    if (plan.fits()) plan.status = judge(plan);
    plan.proven = exact.status == ExactStatus::none && !plan.fits();
    return exact.status != ExactStatus::open;
  }

  void choose_aimed(StepPlan& plan) {
    if (may_be_proven() && prove(plan)) {
      if (plan.fits()) tell_all_is_done();
      return;
    }
    aim_at(plan);
    const LinkSchedule* best = nullptr;
    for (const LinkSchedule& one : aimed_linked_) {
      plan.smallest_known_peak = std::min(plan.smallest_known_peak, one.peak_bytes);
      const auto rank = [&](const LinkSchedule& s) {
        return std::tuple(s.added_cost, copied_bytes(problem_, s.schedule), s.peak_bytes);
      };
      const bool fits = one.peak_bytes <= plan.budget_bytes;
      if (fits && (best == nullptr || rank(one) < rank(*best))) best = &one;
    }
    if (best != nullptr) accept(plan, best->schedule);
    if (!problem_.has_link) accept_cheaper(plan, aimed_);
    if (!plan.fits()) choose_low(plan);
    tighten_bound(plan);
    if (is_tight(plan) && !stopped()) {
      accept_cheaper(plan, searched());
      plan.smallest_known_peak = std::min(plan.smallest_known_peak, searched().all().front().peak_bytes);
    }
    tell_all_is_done();
  }

  /// Where a proof was tried, it has done so.
  void tighten_bound(StepPlan& plan) const {
    if (!plan.fits() || plan.outcome.added_cost <= enough_cost(plan) || problem_.has_link || may_be_proven() ||
        stopped())
      return;
    plan.lower_bound_cost = std::max(
        plan.lower_bound_cost,
        least_added_cost_with_inputs(problem_, plan.budget_bytes, plan.outcome.added_cost, limits_.should_stop));
    plan.status = judge(plan);
  }

  void tell_all_is_done() {
    for (const Stage stage : {Stage::one_budget, Stage::all_budgets})
      if (const auto tell = progress_.part(static_cast<std::size_t>(stage))) tell(1);
  }

  [[nodiscard]] bool may_be_tight() const { return !problem_.has_link && problem_.op_count <= kManyOps; }

  /// Where runs are wanted over and over, neighbouring budgets help one another: that is worth a search for all of
  /// them.
  [[nodiscard]] bool is_tight(const StepPlan& plan) const {
    if (!may_be_tight() || (may_be_proven() && plan.fits())) return false;
    if (plan.fits()) return plan.percent(plan.outcome.added_cost - plan.lower_bound_cost) > kFarFromBound;
    return static_cast<double>(plan.smallest_known_peak) <= kWithinReach * static_cast<double>(plan.budget_bytes);
  }

  void accept_cheaper(StepPlan& plan, const Archive& archive) const {
    const Solution* found = archive.best_within(plan.budget_bytes);
    if (found == nullptr || (plan.fits() && found->added_cost >= plan.outcome.added_cost)) return;
    accept(plan, useful_schedule(*found));
  }

  /// Of what does not depend on a budget: so the lowest peak that is told is met where it is asked for. What comes
  /// closest is one more start.
  void choose_low(StepPlan& plan) {
    plan.smallest_known_peak = smallest_peak(true);
    if (problem_.has_link) {
      choose_linked(plan, link_schedules(true));
      return;
    }
    accept_cheaper(plan, *looked_at_);
    if (plan.fits()) return;
    aimed_.add_all(*looked_at_);
    if (stopped()) return;
    search_within(problem_, {.budgets = {plan.budget_bytes}, .work = kAimedWork * limits_.effort, .repeats = &repeats_},
                  first_look_limits(), aimed_);
    accept_cheaper(plan, aimed_);
  }

  void choose_linked(StepPlan& plan, const std::vector<LinkSchedule>& known) const {
    const auto above = std::ranges::upper_bound(known, plan.budget_bytes, {}, &LinkSchedule::peak_bytes);
    if (above != known.begin()) accept(plan, (above - 1)->schedule);
  }

  void solve(StepPlan& plan) {
    const Bytes budget = plan.budget_bytes;
    plan.lower_bound_cost = least_added_cost(problem_, budget, limits_.should_stop);
    if (is_aimed()) {
      choose_aimed(plan);
      return;
    }
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
      choose_linked(plan, link_schedules());
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
    if (problem_.has_link) return std::min(peak, link_schedules(is_aimed()).front().peak_bytes);
    if (!exact_.points().empty()) peak = std::min(peak, exact_.points().back().peak_bytes);
    first_look |= is_aimed();
    if (first_look && (is_aimed() || !searched_) && !looked_at_)
      looked_at_ = find_schedules(problem_, first_look_limits());
    if (!first_look) return std::min(peak, searched().all().front().peak_bytes);
    for (const std::optional<Archive>* archive : {&searched_, &looked_at_})
      if (*archive) peak = std::min(peak, (*archive)->all().front().peak_bytes);
    return peak;
  }

  const Problem& problem_;
  PlanLimits limits_;
  PartedProgress progress_;
  const KnownRepeats repeats_;
  LeastPeak least_;
  Bytes keep_all_peak_;
  ExactFrontier exact_;
  std::optional<Archive> searched_, looked_at_;
  Archive aimed_;
  std::optional<std::int64_t> told_better_;  ///< what the best added that was told
  std::optional<LinkSearch> link_search_;
  std::vector<LinkSchedule> aimed_linked_;
  std::vector<Bytes> aimed_at_;                                   ///< budgets that were searched by themselves
  std::optional<std::vector<LinkSchedule>> linked_, linked_low_;  ///< of a list with a link, in their place
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
