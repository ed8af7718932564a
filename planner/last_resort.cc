#include "planner/last_resort.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "planner/decide/gaps/give_up.h"

namespace tidemark::plan {
namespace {

constexpr Bytes kGridShare = 128;  ///< steps of the grid in what everything kept takes
constexpr Bytes kGridSteps = 4;    ///< of them below a budget, or below what the policy comes to at last
/// Of them between a budget and the fewest bytes alive of all plans that are asked for as little as can be: what a
/// search at the budget would have to save beyond them. Assumed, not proven: none that was tried came down as far.
constexpr Bytes kFarSteps = 2;
constexpr Bytes kFarShare = 3;  ///< of the budget: what everything kept takes where that is looked at

class LastResortSearch {
 public:
  LastResortSearch(const RankRequest& in, const Budgets& budgets, RankPlan& plan)
      : in_(in), budgets_(budgets), plan_(plan), whole_(make_problem(in, budgets, plan)) {}

  Status run() {
    if (Status s = build_all(); !s) return s;
    return whole_->is_flat() || in_.request.is_brief ? Status{} : search_near();
  }

  /// After build_all(): whether a little less than it comes to can be had.
  Status search_near() {
    const Bytes least = result_.best.best.height();
    if (least <= budgets_.device) return {};
    if (least - budgets_.device <= kGridSteps * step())
      if (Status s = search_grid(); !s || fits(result_.best.best, budgets_)) return s;
    return search_below(least);
  }

  /// Of what is asked for as little device memory as can be, without a schedule or addresses, the bytes alive.
  [[nodiscard]] bool seems_far() {
    const bool offloads = in_.request.policy->offloads_state;
    const std::shared_ptr<decide::RankProblem> problem = offloads ? with_all_offloaded() : whole_;
    if (!problem->check()) return false;
    return is_far(problem->evaluator().price(decide::gaps::give_up_all(problem->gaps(), budgets_.host)).peak_bytes);
  }

  /// So many bytes alive that no other plan is expected to come down to the budget.
  [[nodiscard]] bool is_far(Bytes alive) { return alive - budgets_.device > kFarSteps * step(); }
  /// The fewest of all plans built.
  [[nodiscard]] Bytes least_alive() const { return least_alive_; }

  /// One of those that build_all() makes, where it is known that nothing fits.
  Status build_one() {
    return in_.request.policy->offloads_state ? build_least(with_all_offloaded(), give_up_all)
                                              : build_least(whole_, in_.request.policy->decide);
  }

  /// The plans that are asked for as little device memory as can be.
  Status build_all() {
    if (whole_->is_flat()) return build_least(whole_, in_.request.policy->decide);
    if (in_.request.is_brief) return build_one();
    if (Status s = build_least(whole_, in_.request.policy->decide); !s) return s;
    for (const Rule& rule : in_.request.policy->fallbacks)
      if (Status s = build_least(whole_, rule.decide); !s) return s;
    if (in_.request.policy->offloads_state) {
      const std::shared_ptr<decide::RankProblem> offloaded = with_all_offloaded();
      if (Status s = build_least(offloaded, in_.request.policy->decide); !s) return s;
      if (Status s = build_least(offloaded, give_up_all); !s) return s;
    }
    return {};
  }

  /// Where nothing fits: down to which budget the grid of a larger one comes. `least`: of build_all().
  Status search_below(Bytes least) {
    const Bytes step = this->step();
    const Bytes top = least / step;
    for (Bytes i = top; i > std::max(budgets_.device / step, top - kGridSteps); --i) {
      const Result<Heights> now = search_at(i * step);
      if (!now) return now.error();
      const Bytes height = now.value().device;
      if (height >= least || least - height > kGridSteps * step) break;
      if (height < (i + kGridSteps) * step) result_.enough.push_back(now.value());
      if (height > i * step) break;
    }
    return {};
  }

  [[nodiscard]] LastResort result() && { return std::move(result_); }

 private:
  static PolicyAnswer give_up_all(const PolicyRequest& request) {
    return answer_of(request, decide::gaps::give_up_all(request.problem.gaps(), request.host_budget_bytes));
  }

  /// Nothing takes less room than state that comes and goes one storage at a time.
  [[nodiscard]] std::shared_ptr<decide::RankProblem> with_all_offloaded() const {
    return make_problem(in_, budgets_, plan_,
                        {.storages = offloadable_within(in_, budgets_.host, plan_), .device_budget = 0});
  }

  /// Of the grid.
  [[nodiscard]] Bytes step() { return std::max<Bytes>(1, whole_->keep_all_peak_bytes() / kGridShare); }

  /// Where addresses took more host memory than there is, the rule is asked again with that much less. Packed as if
  /// there were no device memory, so that whoever plans for the height that comes of it comes to it as well.
  Status build_least(const std::shared_ptr<decide::RankProblem>& problem, const DecideFunction& rule) {
    if (Status s = problem->check(); !s) return s;
    Budgets least = budgets_;
    least.device = 0;
    Bytes host = budgets_.host;
    for (int i = 0; i < 2; ++i) {
      const PolicyAnswer answer = rule({.problem = *problem, .device_budget_bytes = 0, .host_budget_bytes = host});
      Result<BuiltPlan> built = build_plan(*problem, answer, least, in_.request);
      if (!built) return built.error();
      built.value().layout.arenas.front().capacity_bytes = budgets_.device;
      const Bytes over = built.value().host_height() - budgets_.host;
      result_.enough.push_back({.device = built.value().height(), .host = built.value().host_height()});
      least_alive_ = std::min(least_alive_, built.value().layout.device_load_bytes);
      keep({.problem = problem, .best = std::move(built).value()});
      if (over <= 0 || 2 * over >= budgets_.host) break;
      host = budgets_.host - 2 * over;
    }
    return {};
  }

  /// For a budget that is near.
  Status search_grid() {
    const Bytes step = this->step();
    const Bytes top = budgets_.device / step;
    for (Bytes i = top; i > std::max<Bytes>(0, top - kGridSteps); --i) {
      const Result<Heights> now = search_at(i * step);
      if (!now) return now.error();
      // From that budget the grid still comes down to here.
      if (now.value().device < (i + kGridSteps) * step) result_.enough.push_back(now.value());
      if (fits(result_.best.best, budgets_)) break;
    }
    return {};
  }

  Result<Heights> search_at(Bytes device) {
    Budgets lower = budgets_;
    lower.device = device;
    Result<OffloadResult> found = search_offload(in_, lower, plan_);
    if (!found) return found.error();
    const Heights now{.device = found.value().best.height(), .host = found.value().best.host_height()};
    found.value().best.layout.arenas.front().capacity_bytes = budgets_.device;
    found.value().bound_ns = 0;
    keep(std::move(found).value());
    return now;
  }

  void keep(OffloadResult found) {
    if (result_.best.problem == nullptr || is_better(found.best, result_.best.best, budgets_))
      result_.best = std::move(found);
  }

  const RankRequest& in_;
  const Budgets& budgets_;
  RankPlan& plan_;
  /// Made anew: the problem of a flat step knows what searches at this budget came by.
  std::shared_ptr<decide::RankProblem> whole_;
  Bytes least_alive_ = std::numeric_limits<Bytes>::max();
  LastResort result_;
};

}  // namespace

Result<LastResort> try_last_resort(const RankRequest& request, const Budgets& budgets, RankPlan& plan) {
  LastResortSearch search(request, budgets, plan);
  if (Status s = search.run(); !s) return s.error();
  return std::move(search).result();
}

Result<std::optional<LastResort>> refuse_far_budget(const RankRequest& request, const Budgets& budgets,
                                                    RankPlan& plan) {
  const PlanRequest& asked = request.request;
  const bool fits_whole = plan.liveness.peak_bytes <= budgets.device;
  if (fits_whole || asked.step || asked.is_brief || asked.policy->is_fixed) return std::optional<LastResort>();
  LastResortSearch search(request, budgets, plan);
  // What one op and all that never leaves take: known at once, and so is what the policy comes to at last.
  if (plan.liveness.working_set_bytes > budgets.device) {
    if (Status s = request.is_tentative ? search.build_one() : search.build_all(); !s) return s.error();
    return std::optional(std::move(search).result());
  }
  // Looking builds the problem of the rank once more: not where a budget is anywhere near what plans come down to.
  if (plan.liveness.peak_bytes < kFarShare * budgets.device || !search.seems_far()) return std::optional<LastResort>();
  if (Status s = search.build_all(); !s) return s.error();
  if (!search.is_far(search.least_alive())) return std::optional<LastResort>();
  if (!request.is_tentative)
    if (Status s = search.search_near(); !s) return s.error();
  return std::optional(std::move(search).result());
}

}  // namespace tidemark::plan
