#include "planner/remat/plan.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>

#include "planner/parallel.h"
#include "planner/remat/bound.h"
#include "planner/remat/exact.h"
#include "planner/remat/improve.h"
#include "planner/remat/seeds.h"
#include "planner/remat/state.h"
#include "planner/remat/ways.h"

namespace tidemark::remat {
namespace {

constexpr int kRungs = 40;               // on each of two scales
constexpr std::int32_t kManyOps = 5000;  // where every rung takes seconds
constexpr int kFewRungs = 5;
constexpr std::size_t kWindow = 6;  // rungs that are searched for one budget
constexpr std::size_t kFewWindow = 2;
constexpr double kRungWork = 100e6;       // entries of profiles looked at, 10 to 20 ns each
constexpr double kWaysShare = 2;          // of that, besides: storages looked at in passes
constexpr double kFrontierWork = 6e6;     // where all rungs are searched
constexpr double kRepairWork = 60e6;      // at most, per rung on the way down
constexpr double kPolishWork = 1e6;       // per rung on the way down
constexpr std::int64_t kPassWork = 5000;  // per op, of one pass on the way down
constexpr std::int64_t kPassWorkOfMany = 3000;
constexpr int kRungsPerPass = 4;
constexpr std::int64_t kSeedReruns = 600'000;
constexpr std::uint64_t kSeed = 1;

/// Schedules for a ladder of budgets from the least possible peak to keeping everything. What a rung's search finds
/// depends on the way down and on the rung alone, not on the budget asked for, so that budgets can be compared.
class Ladder {
 public:
  /// `known`: schedules to set out from besides its own seeds.
  Ladder(const Problem& problem, const PlanLimits& limits, const Archive& known)
      : problem_(problem), limits_(limits), state_(problem, 0), archive_(known) {
    const Bytes least = least_peak(problem).bytes;
    const Bytes most = state_.profile().peak();
    const auto low = static_cast<double>(std::max<Bytes>(least, 1)), high = static_cast<double>(most);
    const int rungs = problem.op_count > kManyOps ? kFewRungs : kRungs;
    for (int i = 0; i < rungs; ++i) {
      const double share = static_cast<double>(i) / rungs;
      rungs_.push_back(static_cast<Bytes>(low * std::pow(high / low, share)));                // dense where it is tight
      rungs_.push_back(static_cast<Bytes>(high - (high - low) * (1 - share) * (1 - share)));  // and where it is loose
    }
    rungs_.push_back(most);
    for (Bytes& rung : rungs_) rung = std::clamp(rung, least, most);
    std::ranges::sort(rungs_);
    const auto again = std::ranges::unique(rungs_);
    rungs_.erase(again.begin(), again.end());
    archive_.add(state_.solution());
    for (Solution& seed : checkpoint_seeds(problem, kSeedReruns)) archive_.add(std::move(seed));
    descend();
  }

  /// Searches the rungs around a budget: the first that is not below it, and some below that; or all, each a little.
  Archive search(std::optional<Bytes> budget) {
    if (!budget) {
      search_rungs(0, rungs_.size(), kFrontierWork);
      return std::move(archive_);
    }
    const auto above = std::ranges::lower_bound(rungs_, *budget);
    const auto last = static_cast<std::size_t>(above - rungs_.begin()) + 1;
    search_rungs(last - std::min(problem_.op_count > kManyOps ? kFewWindow : kWindow, last),
                 std::min(last, rungs_.size()), kRungWork);
    return std::move(archive_);
  }

 private:
  [[nodiscard]] static bool fits_for_nothing(const Archive& archive, Bytes budget) {
    const Solution* best = archive.best_within(budget);
    return best != nullptr && best->added_cost == 0;
  }
  [[nodiscard]] bool stopped() const { return limits_.should_stop && limits_.should_stop(); }
  [[nodiscard]] std::int64_t work(double units) const { return std::llround(units * limits_.effort); }

  /// From keeping everything down, rung by rung, as far as repairs reach; where a schedule is known that is cheaper
  /// than the repaired one, on from there.
  void descend() {
    Improver improver(state_, archive_, kSeed);
    const bool many = problem_.op_count > kManyOps;
    bool passes = true;
    for (auto rung = rungs_.rbegin(); rung != rungs_.rend() && !stopped(); ++rung) {
      state_.set_budget(*rung);
      if (passes && (rung - rungs_.rbegin()) % (many ? 1 : kRungsPerPass) == 0)
        passes = try_common_ways(problem_, *rung, (many ? kPassWorkOfMany : kPassWork) * problem_.op_count, archive_);
      const bool repaired = improver.repair(work(kRepairWork));
      const Solution* known = archive_.best_within(*rung);
      if (!repaired && known == nullptr) return;
      if (known != nullptr && (!repaired || known->added_cost < state_.added_cost())) state_.load(Solution(*known));
      improver.improve(work(kPolishWork), limits_.should_stop);
    }
  }

  void search_rungs(std::size_t begin, std::size_t end, double units) {
    std::vector<Archive> found(end - begin, archive_);
    parallel_for_each(begin, end, [&](std::size_t i) {
      Archive& archive = found[i - begin];
      const auto improve_best = [&] {
        const Solution* start = archive.best_within(rungs_[i]);
        if (stopped() || (start != nullptr && start->added_cost == 0)) return;
        State state(problem_, rungs_[i]);
        state.load(Solution(start != nullptr ? *start : archive.all().front()));
        Improver improver(state, archive, kSeed + i);
        if (start == nullptr && !improver.repair(work(units))) return;
        improver.improve(work(units), limits_.should_stop);
      };
      improve_best();
      if (stopped() || fits_for_nothing(archive, rungs_[i])) return;
      search_ways(problem_, rungs_[i], work(units * kWaysShare), kSeed + i, limits_.should_stop, archive);
      improve_best();
    });
    for (const Archive& archive : found)
      for (const Solution& solution : archive.all()) archive_.add(solution);
  }

  const Problem& problem_;
  const PlanLimits& limits_;
  State state_;
  Archive archive_;
  std::vector<Bytes> rungs_;
};

/// The same step with runs again only, and with pages only; none where it does not have both.
std::vector<Problem> one_way_only(const Problem& problem) {
  const bool pages = std::ranges::count(problem.swappable, 0) < std::ssize(problem.swappable);
  const bool reruns = std::ranges::count(problem.rerun_until, -1) < std::ssize(problem.rerun_until);
  if (!pages || !reruns || problem.op_count > kManyOps) return {};
  std::vector<Problem> alone(2, problem);
  std::ranges::fill(alone[0].swappable, 0);
  std::ranges::fill(alone[1].rerun_until, -1);
  return alone;
}

/// What was found for a budget; nothing: for all. Either way alone is searched first, as it would be by itself, so that
/// both together are never worse than one.
Archive schedules_for(const Problem& problem, std::optional<Bytes> budget, const PlanLimits& limits) {
  const std::vector<Problem> alone = one_way_only(problem);
  std::vector<Archive> found(alone.size());
  parallel_for_each(0, alone.size(), [&](std::size_t i) { found[i] = Ladder(alone[i], limits, {}).search(budget); });
  Archive known;
  for (const Archive& archive : found)
    for (const Solution& solution : archive.all()) known.add(solution);
  return Ladder(problem, limits, known).search(budget);
}

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

constexpr std::int32_t kMostExactOps = 32;
constexpr std::int64_t kExactWork = 300'000;  // ways to make room, about 1 us each

/// Of a small list: finds the best, or proves or betters what the search found.
void solve_small(StepPlan& plan, const Problem& problem, Bytes budget) {
  if (problem.op_count > kMostExactOps || plan.status == PlanStatus::optimal) return;
  const bool found = plan.fits();
  std::int64_t most = found ? plan.replay.added_cost : std::numeric_limits<std::int64_t>::max();
  for (;;) {
    const std::optional<ExactAnswer> answer = solve_exactly(problem, budget, most, kExactWork);
    if (!answer) return;
    if (!answer->feasible) {
      if (!plan.fits()) plan.proven = true;
      return;
    }
    most = answer->added_cost;
    accept(plan, *problem.list, answer->schedule, problem.rules);
    plan.lower_bound_cost = answer->added_cost;
    plan.status = PlanStatus::optimal;
    plan.smallest_known_peak = std::min(plan.smallest_known_peak, plan.replay.peak_bytes);
    budget = plan.replay.peak_bytes - 1;  // of all that cost as little, the lowest
  }
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
  if (limits.prove_small) solve_small(plan, problem, budget);
  if (plan.fits()) return plan;
  constexpr double kLittle = 0.02;  // where it is known that nothing fits, and asked only what would
  PlanLimits search_limits = limits;
  if (plan.proven) search_limits.effort *= kLittle;
  const Archive archive = schedules_for(problem, budget, search_limits);
  plan.smallest_known_peak = archive.all().front().peak_bytes;
  if (const Solution* best = archive.best_within(budget)) accept(plan, list, schedule_of(problem, *best), rules);
  if (limits.prove_small) solve_small(plan, problem, budget);
  return plan;
}

std::vector<FrontierPoint> frontier_of(const OpList& list, RecomputeRules rules, const PlanLimits& limits) {
  const Problem problem(list, rules);
  std::vector<FrontierPoint> points;
  const Archive archive = schedules_for(problem, std::nullopt, limits);
  for (const Solution& solution : archive.all())
    points.push_back({.peak_bytes = solution.peak_bytes, .added_cost = solution.added_cost});
  return points;
}

}  // namespace tidemark::remat
