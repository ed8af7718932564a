#include "planner/last_resort.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "planner/decide/gaps/give_up.h"

namespace tidemark::plan {
namespace {

constexpr Bytes kGridShare = 128;  ///< steps of the grid in what everything kept takes
constexpr Bytes kGridSteps = 4;    ///< of them below a budget, or below what the policy comes to at last

class LastResortSearch {
 public:
  LastResortSearch(const RankRequest& in, const Budgets& budgets, RankPlan& plan)
      : in_(in), budgets_(budgets), plan_(plan) {}

  Status run() {
    // Made anew: the problem of a flat step knows what searches at this budget came by.
    const std::shared_ptr<decide::RankProblem> whole = make_problem(in_, budgets_, plan_);
    if (whole->is_flat()) return build_least(whole, in_.request.policy->decide);
    if (in_.request.is_brief) return run_briefly(whole);
    if (Status s = build_least(whole, in_.request.policy->decide); !s) return s;
    for (const Rule& rule : in_.request.policy->fallbacks)
      if (Status s = build_least(whole, rule.decide); !s) return s;
    if (in_.request.policy->offloads_state) {
      const std::shared_ptr<decide::RankProblem> offloaded = with_all_offloaded();
      if (Status s = build_least(offloaded, in_.request.policy->decide); !s) return s;
      if (Status s = build_least(offloaded, give_up_all); !s) return s;
    }
    const Bytes least = result_.best.best.height();
    if (least <= budgets_.device) return {};
    const Bytes step = std::max<Bytes>(1, whole->keep_all_peak_bytes() / kGridShare);
    if (least - budgets_.device <= kGridSteps * step)
      if (Status s = search_grid(step); !s || fits(result_.best.best, budgets_)) return s;
    return search_below(least, step);
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

  /// One plan that a whole search tries as well.
  Status run_briefly(const std::shared_ptr<decide::RankProblem>& whole) {
    if (!in_.request.policy->offloads_state) return build_least(whole, in_.request.policy->decide);
    return build_least(with_all_offloaded(), give_up_all);
  }

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
      keep({.problem = problem, .best = std::move(built).value()});
      if (over <= 0 || 2 * over >= budgets_.host) break;
      host = budgets_.host - 2 * over;
    }
    return {};
  }

  /// For a budget that is near.
  Status search_grid(Bytes step) {
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

  /// Where nothing fits: down to which budget the grid of a larger one comes. `least` is what the policy comes to where
  /// it is asked for as little as can be.
  Status search_below(Bytes least, Bytes step) {
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
  LastResort result_;
};

}  // namespace

Result<LastResort> try_last_resort(const RankRequest& request, const Budgets& budgets, RankPlan& plan) {
  LastResortSearch search(request, budgets, plan);
  if (Status s = search.run(); !s) return s.error();
  return std::move(search).result();
}

}  // namespace tidemark::plan
