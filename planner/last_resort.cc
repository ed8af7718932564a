#include "planner/last_resort.h"

#include <algorithm>
#include <memory>
#include <utility>
namespace tidemark::plan {
namespace {

constexpr Bytes kGridShare = 128;  ///< steps of the grid in what everything kept takes
constexpr Bytes kGridSteps = 4;    ///< of them below the budget

class LastResortSearch {
 public:
  LastResortSearch(const RankRequest& in, const Budgets& budgets, RankPlan& plan)
      : in_(in), budgets_(budgets), plan_(plan) {}

  Status run() {
    // Made anew: the problem of a flat step knows what searches at this budget came by.
    const std::shared_ptr<decide::RankProblem> whole = make_problem(in_, budgets_, plan_);
    if (Status s = build_least(whole); !s || whole->is_flat()) return s;
    if (in_.request.policy->offloads_state) {
      // Nothing takes less room than state that comes and goes one storage at a time.
      decide::sites::OffloadChoice all{.storages = offloadable_within(in_, budgets_.host, plan_), .device_budget = 0};
      if (Status s = build_least(make_problem(in_, budgets_, plan_, std::move(all))); !s) return s;
    }
    const Bytes step = std::max<Bytes>(1, whole->keep_all_peak_bytes() / kGridShare);
    const Bytes missing = result_.best.best.height() - budgets_.device;
    return missing > 0 && missing <= kGridSteps * step ? search_grid(step) : Status{};
  }

  [[nodiscard]] LastResort result() && { return std::move(result_); }

 private:
  /// Where addresses took more host memory than there is, the policy is asked again with that much less.
  Status build_least(const std::shared_ptr<decide::RankProblem>& problem) {
    if (Status s = problem->check(); !s) return s;
    Bytes host = budgets_.host;
    for (int i = 0; i < 2; ++i) {
      const PolicyAnswer answer =
          in_.request.policy->decide({.problem = *problem, .device_budget_bytes = 0, .host_budget_bytes = host});
      Result<BuiltPlan> built = build_plan(*problem, answer, budgets_, in_.request);
      if (!built) return built.error();
      const Bytes over = built.value().host_height() - budgets_.host;
      result_.enough.push_back({.device = built.value().height(), .host = built.value().host_height()});
      keep({.problem = problem, .best = std::move(built).value()});
      if (over <= 0 || 2 * over >= budgets_.host) break;
      host = budgets_.host - 2 * over;
    }
    return {};
  }

  Status search_grid(Bytes step) {
    const Bytes top = budgets_.device / step;
    for (Bytes i = top; i > std::max<Bytes>(0, top - kGridSteps); --i) {
      Budgets lower = budgets_;
      lower.device = i * step;
      Result<OffloadResult> found = search_offload(in_, lower, plan_);
      if (!found) return found.error();
      const Heights now{.device = found.value().best.height(), .host = found.value().best.host_height()};
      // From that budget the grid still comes down to here.
      if (now.device < (i + kGridSteps) * step) result_.enough.push_back(now);
      found.value().best.layout.arenas.front().capacity_bytes = budgets_.device;
      found.value().bound_ns = 0;
      keep(std::move(found).value());
      if (fits(result_.best.best, budgets_)) break;
    }
    return {};
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
