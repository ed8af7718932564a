#include "planner/remat/plan.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "planner/remat/bound.h"
#include "planner/remat/improve.h"
#include "planner/remat/state.h"

namespace tidemark::remat {
namespace {

constexpr int kRungs = 32;
constexpr double kRungWork = 20e6;    // entries of the profile, about 5 ns each
constexpr double kRepairWork = 10e6;  // per rung on the way down
constexpr std::uint64_t kSeed = 1;

/// Schedules for a ladder of budgets from the least possible peak to keeping everything.
class Ladder {
 public:
  Ladder(const Problem& problem, Bytes least, const PlanLimits& limits)
      : limits_(limits), state_(problem, 0), improver_(state_, archive_, kSeed) {
    const Bytes most = state_.profile().peak();
    for (int i = 0; i < kRungs; ++i) {
      const double share = std::pow(static_cast<double>(most) / static_cast<double>(std::max<Bytes>(least, 1)),
                                    static_cast<double>(i) / kRungs);
      rungs_.push_back(std::clamp(static_cast<Bytes>(static_cast<double>(least) * share), least, most));
    }
    rungs_.push_back(most);
    archive_.add(state_.solution());
  }

  /// Searches for budgets up to the first rung that is not below `budget`.
  const Archive& search(Bytes budget) {
    descend();
    for (const Bytes rung : rungs_) {
      climb(rung);
      if (rung >= budget || stopped()) break;
    }
    return archive_;
  }

 private:
  [[nodiscard]] bool stopped() const { return limits_.should_stop && limits_.should_stop(); }

  /// From keeping everything down, rung by rung, as far as repairs reach.
  void descend() {
    for (auto rung = rungs_.rbegin(); rung != rungs_.rend() && !stopped(); ++rung) {
      state_.set_budget(*rung);
      if (!improver_.repair(work(kRepairWork))) return;
      improver_.improve(work(kRepairWork / 8), limits_.should_stop);
    }
  }

  void climb(Bytes rung) {
    const Solution* start = archive_.best_within(rung);
    if (start == nullptr || start->added_cost == 0) return;
    const Solution from = *start;  // the archive changes
    state_.set_budget(rung);
    state_.load(from);
    improver_.improve(work(kRungWork), limits_.should_stop);
  }

  [[nodiscard]] std::int64_t work(double units) const { return std::llround(units * limits_.effort); }

  const PlanLimits& limits_;
  State state_;
  Archive archive_;
  Improver improver_;
  std::vector<Bytes> rungs_;
};

PlanStatus judge(const StepPlan& plan) {
  if (plan.replay.added_cost <= plan.lower_bound_cost) return PlanStatus::optimal;
  constexpr double kNear = 1;
  const std::int64_t gap = plan.replay.added_cost - plan.lower_bound_cost;
  return plan.percent(gap) <= kNear ? PlanStatus::within : PlanStatus::best_found;
}

void accept(StepPlan& plan, const OpList& list, OpSchedule schedule, RecomputeRules rules) {
  plan.schedule = std::move(schedule);
  plan.replay = replay_schedule(list, plan.schedule, rules);
  assert(plan.replay.fault.empty());
  plan.status = judge(plan);
}

}  // namespace

StepPlan plan_step_within(const OpList& list, Bytes budget, RecomputeRules rules, const PlanLimits& limits) {
  const Problem problem(list, rules);
  const LeastPeak least = least_peak(problem);
  StepPlan plan{.budget_bytes = budget,
                .keep_all_peak_bytes = State(problem, 0).profile().peak(),
                .lower_bound_bytes = least.bytes,
                .lower_bound_op = least.op,
                .keep_all_cost = problem.total_cost()};
  plan.smallest_known_peak = plan.keep_all_peak_bytes;
  if (plan.keep_all_peak_bytes <= budget) {
    accept(plan, list, keep_all_schedule(list), rules);
    return plan;
  }
  plan.proven = budget < least.bytes;
  if (!plan.proven) plan.lower_bound_cost = least_added_cost(problem, budget);
  Ladder ladder(problem, least.bytes, limits);
  const Archive& archive = ladder.search(budget);
  plan.smallest_known_peak = archive.all().front().peak_bytes;
  if (const Solution* best = archive.best_within(budget)) accept(plan, list, schedule_of(problem, *best), rules);
  return plan;
}

std::vector<FrontierPoint> frontier_of(const OpList& list, RecomputeRules rules, const PlanLimits& limits) {
  const Problem problem(list, rules);
  Ladder ladder(problem, least_peak(problem).bytes, limits);
  std::vector<FrontierPoint> points;
  for (const Solution& solution : ladder.search(State(problem, 0).profile().peak()).all())
    points.push_back({.peak_bytes = solution.peak_bytes, .added_cost = solution.added_cost});
  return points;
}

}  // namespace tidemark::remat
