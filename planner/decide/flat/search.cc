#include "planner/decide/flat/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "planner/decide/flat/bound.h"
#include "planner/decide/flat/core_choices.h"
#include "planner/decide/flat/greedy.h"
#include "planner/decide/flat/list_length.h"
#include "planner/decide/flat/parted_progress.h"
#include "planner/decide/flat/seeds.h"
#include "planner/decide/flat/state.h"
#include "planner/decide/flat/ways.h"
#include "planner/threads/parallel.h"

namespace tidemark::decide::flat {
namespace {

constexpr int kRungs = 40;  // on each of two scales
constexpr int kFewRungs = 5;
constexpr int kLooseRungsOfPasses = 50;
constexpr unsigned kRounds = 6;
constexpr double kWayDown = 0.2;              // of the work, where rounds follow
constexpr double kDecisionWork = 20e3;        // in the first round, per decision of a schedule; then twice as much ...
constexpr double kFirstHeat = 0.03;           // ... and as hot, up to the usual
constexpr double kRoundWork = 1200e6;         // of all rungs: entries of profiles looked at ...
constexpr double kRoundWorkOfLong = 500e6;    // ... and of long lists
constexpr std::int64_t kLeastTaskWork = 300;  // per op, of a rung in a round
constexpr double kLeastDecisions = 10;
constexpr double kRepairWork = 60e6;         // at most, per rung on the way down
constexpr double kPolishWork = 1e6;          // per rung on the way down
constexpr std::int64_t kPassWork = 3000;     // per op, of one pass on the way down
constexpr std::size_t kLongRungsAtOnce = 2;  // ... of a long list: where the first fails, so does the next, and dearly
constexpr std::size_t kRungsAtOnce = 4;      // of passes on the way down
constexpr double kPassesWork = 2e9, kLeastPassesEffort = 0.1;  // of a long list, all passes together
constexpr std::int64_t kSeedReruns = 600'000;
constexpr std::uint64_t kSeed = 1;
constexpr int kPatience = 2, kPatienceOfFew = 3;       // rounds without gain
constexpr double kGain = 1e-3;                         // of the cost, that counts
constexpr std::size_t kBeyond = 3, kBeyondOfFew = 10;  // rungs below all that is known that are tried

/// Of a series that fills (0, 1] evenly wherever it is broken off: 0, 1/2, 1/4, 3/4, 1/8, ...
double spread(unsigned i) {
  double share = 0;
  for (double bit = 0.5; i != 0; i /= 2, bit /= 2) share += i % 2 == 0 ? 0 : bit;
  return share;
}

/// What is known of the stretch of budgets from the rung below up to this one.
struct Rung {
  Bytes bytes = 0;
  std::int64_t seen_cost = -1;     ///< when it was looked at last; -1: nothing fitted
  int idle = 0;                    ///< rounds in a row without gain
  bool passes_help = true;         ///< beside local search
  std::optional<Attempt> attempt;  ///< the best that passes came to
};

/// One rung's part of a round.
struct Task {
  std::size_t rung = 0;
  Bytes budget = 0;
  double units = 0;  ///< of work, for local search, and as much for passes
  double heat = 1;
  bool anew = false;  ///< from keeping everything, not from the best known
  std::uint64_t seed = 0;
  std::int64_t cost_before = -1;
  Archive found;
  std::optional<Attempt> attempt;
  bool passes_helped = false;
};

/// What passes at one rung came to on the way down.
struct RungPasses {
  Archive found;
  CommonWays ways;
};

class Ladder {
 public:
  /// `known`: schedules to set out from besides its own seeds.
  Ladder(const Problem& problem, const SearchLimits& limits, const Archive& known)
      : problem_(problem),
        limits_(limits),
        progress_(limits.on_progress, 1),
        tell_(progress_.part(0)),
        only_passes_(problem.op_count > kManyOps),
        round_work_(problem.op_count > kLongOps ? kRoundWorkOfLong : kRoundWork),
        state_(problem, 0),
        archive_(known) {
    const Bytes least = least_peak(problem).bytes;
    const Bytes most = state_.profile().peak();
    const auto low = static_cast<double>(std::max<Bytes>(least, 1)), high = static_cast<double>(most);
    std::vector<Bytes> scale{most};
    const int tight = only_passes_ ? kFewRungs : kRungs;
    const int loose = only_passes_ ? kLooseRungsOfPasses : tight;
    for (int i = 0; i < tight; ++i)
      scale.push_back(static_cast<Bytes>(low * std::pow(high / low, static_cast<double>(i) / tight)));
    for (int i = 0; i < loose; ++i) {
      const double share = static_cast<double>(i) / loose;
      // Of a long list each is looked at once: evenly, and at the shares people ask for.
      scale.push_back(
          static_cast<Bytes>(only_passes_ ? high * share : high - (high - low) * (1 - share) * (1 - share)));
    }
    for (Bytes& bytes : scale) bytes = std::clamp(bytes, least, most);
    std::ranges::sort(scale);
    scale.erase(std::unique(scale.begin(), scale.end()), scale.end());
    for (const Bytes bytes : scale) rungs_.push_back({.bytes = bytes});
    archive_.add(state_.solution());
    if (!stopped())
      for (Solution& seed : checkpoint_seeds(problem, kSeedReruns, limits_.should_stop)) archive_.add(std::move(seed));
    only_passes_ ? descend_by_passes() : descend();
    for (Rung& rung : rungs_) rung.seen_cost = cost_at(rung.bytes);
  }

  Archive search() {
    for (unsigned round = 0; has_rounds() && round < kRounds && !stopped(); ++round)
      if (!search_round(round)) break;
    tell(1);
    return std::move(archive_);
  }

 private:
  [[nodiscard]] bool stopped() const { return limits_.should_stop && limits_.should_stop(); }
  [[nodiscard]] bool has_rounds() const { return !only_passes_ && !limits_.first_look; }
  [[nodiscard]] std::int64_t work(double units) const { return std::llround(units * limits_.effort); }

  void tell(double share) const {
    if (tell_) tell_(share);
  }
  void tell_way_down(double share) const { tell(share * (has_rounds() ? kWayDown : 1)); }

  /// From keeping everything down, rung by rung, as far as repairs reach; where a schedule is known that is cheaper
  /// than the repaired one, on from there.
  void descend() {
    Improver improver(state_, archive_, kSeed);
    std::optional<CoreChoices> core;
    if (problem_.op_count <= kLongOps) core.emplace(problem_);
    bool passes = true;
    std::vector<RungPasses> ahead;  // the next rung's last
    for (std::size_t i = rungs_.size(); i-- > 0 && !stopped();) {
      const Bytes budget = rungs_[i].bytes;
      tell_way_down(1 - static_cast<double>(i + 1) / static_cast<double>(rungs_.size()));
      state_.set_budget(budget);
      if (core) archive_.add(core->within(budget, limits_.should_stop));
      if (passes) {
        if (ahead.empty()) {
          std::vector<Bytes> next;
          for (std::size_t j = i + 1; j-- > 0 && next.size() < kRungsAtOnce;) next.push_back(rungs_[j].bytes);
          ahead = passes_at(next, kPassWork * problem_.op_count);
          std::ranges::reverse(ahead);
        }
        archive_.add_all(ahead.back().found);
        passes = ahead.back().ways.close;
        ahead.pop_back();
      }
      static_cast<void>(improver.repair(work(kRepairWork), limits_.should_stop));  // what fits is in the archive then
      if (!polish(improver, budget)) return;
    }
  }

  /// Goes on from the best known. False: nothing fits.
  bool polish(Improver& improver, Bytes budget) {
    const Solution* known = archive_.best_within(budget);
    if (known == nullptr) return false;
    state_.set_budget(budget);
    if (state_.profile().overflow() > 0 || known->added_cost < state_.added_cost()) state_.load(Solution(*known));
    improver.improve(work(kPolishWork), 1, limits_.should_stop);
    return true;
  }

  /// A long list: first a few rungs, then those between, as far down as passes reach; then a little further between the
  /// last that one reached and the next. As long as there is work left; then what is known at each is polished.
  void descend_by_passes() {
    const auto most_work = static_cast<std::int64_t>(kPassesWork * std::max(limits_.effort, kLeastPassesEffort));
    std::int64_t work_done = 0;
    const auto try_at = [&](const std::vector<Bytes>& budgets) {
      std::vector<RungPasses> passes =
          passes_at(budgets, std::min(kPassWork * problem_.op_count, most_work - work_done));
      for (const RungPasses& one : passes) {
        archive_.add_all(one.found);
        work_done += one.ways.work;
      }
      tell_way_down(std::min(1.0, static_cast<double>(work_done) / static_cast<double>(most_work)));
      return passes;
    };
    const auto has_work = [&] { return !stopped() && work_done < most_work; };
    std::size_t floor = 0;  // no lower rung is tried
    std::vector<std::uint8_t> tried(rungs_.size());
    for (const std::size_t stride : {8U, 4U, 2U, 1U})
      for (std::size_t top = rungs_.size(); top > floor && has_work();) {
        std::vector<std::size_t> next;
        for (; top > floor && next.size() < kLongRungsAtOnce; top -= std::min(top, stride))
          if (std::exchange(tried[top - 1], std::uint8_t{1}) == 0) next.push_back(top - 1);
        std::vector<Bytes> budgets;
        for (const std::size_t i : next) budgets.push_back(rungs_[i].bytes);
        const std::vector<RungPasses> passes = try_at(budgets);
        for (std::size_t i = 0; i < next.size(); ++i)
          if (!passes[i].ways.close) floor = std::max(floor, next[i] + 1);
      }
    if (floor > 0 && floor < rungs_.size() && has_work()) {
      const Bytes low = rungs_[floor - 1].bytes, high = rungs_[floor].bytes;
      static_cast<void>(try_at({low + (high - low) / 2}));
    }
    Improver improver(state_, archive_, kSeed);
    for (std::size_t i = rungs_.size(); i-- > floor && !stopped();)
      if (!polish(improver, rungs_[i].bytes)) return;
  }

  /// All at once: none needs what another found. None takes more than `most_work`.
  [[nodiscard]] std::vector<RungPasses> passes_at(const std::vector<Bytes>& budgets, std::int64_t most_work) const {
    std::vector<RungPasses> passes(budgets.size());
    threads::parallel_for_each(0, passes.size(), [&](std::size_t i) {
      passes[i].ways = try_common_ways(problem_, budgets[i], most_work, passes[i].found, limits_.should_stop);
    });
    return passes;
  }

  [[nodiscard]] std::int64_t cost_at(Bytes budget) const {
    const Solution* best = archive_.best_within(budget);
    return best == nullptr ? -1 : best->added_cost;
  }

  /// Rungs where something may be gained yet.
  [[nodiscard]] std::vector<std::size_t> worthwhile() const {
    std::vector<std::size_t> chosen;
    std::size_t beyond = 0;
    for (std::size_t i = rungs_.size(); i-- > 0;) {
      const std::int64_t cost = cost_at(rungs_[i].bytes);
      if (cost == 0 || rungs_[i].idle >= (problem_.op_count <= kFewOps ? kPatienceOfFew : kPatience)) continue;
      if (cost < 0 && ++beyond > (problem_.op_count <= kFewOps ? kBeyondOfFew : kBeyond)) break;
      chosen.push_back(i);
    }
    return chosen;
  }

  /// What is to be done for the rungs where it may help. Work goes by the decisions there are to make and by what they
  /// cost, doubled from round to round, within what all may take.
  [[nodiscard]] std::vector<Task> tasks_of(unsigned round) const {
    std::vector<Task> tasks;
    double sum = 0;
    const bool few = problem_.op_count <= kFewOps;
    const bool hot = few || std::ranges::all_of(problem_.rerun_until, [](std::int32_t until) { return until < 0; });
    const auto dearest = static_cast<double>(std::max<std::int64_t>(1, archive_.all().front().added_cost));
    for (const std::size_t i : worthwhile()) {
      const Solution* best = archive_.best_within(rungs_[i].bytes);
      if (best == nullptr) best = &archive_.all().front();
      const auto decisions = static_cast<double>(best->reruns.size() + best->swaps.size());
      const double units = (decisions + (few ? 2 : 1) * kLeastDecisions) * (few ? 4 : 1) * kDecisionWork *
                           std::pow(2, round) *
                           (0.1 + 0.9 * std::sqrt(static_cast<double>(best->added_cost) / dearest));
      // Elsewhere in the stretch every time, so that budgets between two rungs have answers of their own.
      const Bytes stretch = i > 0 ? rungs_[i].bytes - rungs_[i - 1].bytes : 0;
      const Bytes budget = rungs_[i].bytes - static_cast<Bytes>(spread(round) * static_cast<double>(stretch));
      tasks.push_back({.rung = i,
                       .budget = budget,
                       .units = units,
                       .heat = hot ? 1 : std::min(1.0, kFirstHeat * std::pow(2, round)),
                       .anew = few && round % 2 == 1,
                       .seed = kSeed + i + 1000 * round,
                       .cost_before = cost_at(budget),
                       .found = Archive(&archive_)});
      sum += units;
    }
    const auto least = static_cast<double>(kLeastTaskWork * problem_.op_count) / limits_.effort;
    auto stride = static_cast<std::size_t>(
        std::ceil(least * static_cast<double>(tasks.size()) / std::max(1.0, std::min(sum, round_work_))));
    if (stride > 1 && tasks.size() > 1) {  // too little work for all: some do more, others next time
      stride = std::min(stride, tasks.size());
      std::vector<Task> some;
      sum = 0;
      for (std::size_t i = round % stride; i < tasks.size(); i += stride) {
        sum += tasks[i].units;
        some.push_back(std::move(tasks[i]));
      }
      tasks = std::move(some);
    }
    for (Task& task : tasks) task.units *= std::min(1.0, round_work_ / sum);
    return tasks;
  }

  /// All rungs at once, each on its own; then they share what they found. False: there is nothing left to do.
  bool search_round(unsigned round) {
    std::vector<Task> tasks = tasks_of(round);
    std::atomic<std::size_t> done{0};
    threads::parallel_for_each(0, tasks.size(), [&](std::size_t i) {
      carry_out(tasks[i]);
      const double share = static_cast<double>(++done) / static_cast<double>(tasks.size());
      tell(kWayDown + (1 - kWayDown) * (round + share) / kRounds);
    });
    for (const Task& task : tasks) archive_.add_all(task.found);
    for (Task& task : tasks) {
      Rung& rung = rungs_[task.rung];
      rung.idle = gained(task.cost_before, cost_at(task.budget)) ? 0 : rung.idle + 1;
      rung.passes_help = task.passes_helped;
      if (task.attempt) rung.attempt = std::move(task.attempt);
    }
    // What others found may be a better start.
    for (Rung& rung : rungs_)
      if (const std::int64_t cost = cost_at(rung.bytes); gained(std::exchange(rung.seen_cost, cost), cost))
        rung.idle = 0;
    return !tasks.empty();
  }

  static bool gained(std::int64_t before, std::int64_t now) {
    if (before < 0 || now < 0) return before != now;
    return static_cast<double>(now) < static_cast<double>(before) * (1 - kGain);
  }

  /// What passes came to here and nearby.
  [[nodiscard]] std::vector<const Attempt*> attempts_near(std::size_t rung) const {
    constexpr std::ptrdiff_t kNear[] = {0, -1, 1, -2, 2, -4, 4};
    std::vector<const Attempt*> attempts;
    for (const std::ptrdiff_t by : kNear) {
      const std::ptrdiff_t other = static_cast<std::ptrdiff_t>(rung) + by;
      if (other < 0 || other >= std::ssize(rungs_)) continue;
      const std::optional<Attempt>& attempt = rungs_[static_cast<std::size_t>(other)].attempt;
      if (attempt) attempts.push_back(&*attempt);
    }
    return attempts;
  }

  void carry_out(Task& task) const {
    if (stopped()) return;
    const Solution* start = archive_.best_within(task.budget);
    if (start != nullptr && start->added_cost == 0) return;
    State state(problem_, task.budget);
    state.load(Solution(task.anew ? archive_.all().back() : start == nullptr ? archive_.all().front() : *start));
    Improver improver(state, task.found, task.seed);
    if (state.profile().overflow() == 0 || improver.repair(work(task.units), limits_.should_stop))
      improver.improve(work(task.units), task.heat, limits_.should_stop);
    const auto cost = [&] {
      const Solution* best = task.found.best_within(task.budget);
      return best == nullptr ? -1 : best->added_cost;
    };
    const std::int64_t improved = cost();
    if (!rungs_[task.rung].passes_help || stopped() || improved == 0) return;
    task.attempt = search_ways(problem_, task.budget, attempts_near(task.rung), work(task.units), task.seed,
                               limits_.should_stop, task.found);
    task.passes_helped = gained(improved, cost());
  }

  const Problem& problem_;
  const SearchLimits& limits_;
  PartedProgress progress_;  ///< a single part: whatever thread tells, and in any order
  const std::function<void(double share)> tell_;
  const bool only_passes_;  ///< of a long list they take less than repairs, and come to more
  const double round_work_;
  State state_;
  Archive archive_;
  std::vector<Rung> rungs_;  ///< ascending
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

}  // namespace

Archive find_schedules(const Problem& problem, const SearchLimits& limits) {
  if (limits.rule == StepRule::greedy) {
    Archive found = greedy_schedules(problem);
    if (limits.on_progress) limits.on_progress(1);
    return found;
  }
  const std::vector<Problem> alone = one_way_only(problem);
  SearchLimits each = limits;
  if (problem.op_count > kLongOps) each.effort /= static_cast<double>(alone.size() + 1);
  PartedProgress progress(limits.on_progress, alone.size() + 1);
  const auto search = [&](const Problem& some, std::size_t part, const Archive& known) {
    SearchLimits limits_of_part = each;
    limits_of_part.on_progress = progress.part(part);
    return Ladder(some, limits_of_part, known).search();
  };
  std::vector<Archive> found(alone.size());
  threads::parallel_for_each(0, alone.size(), [&](std::size_t i) { found[i] = search(alone[i], i, {}); });
  Archive known;
  for (const Archive& archive : found) known.add_all(archive);
  return search(problem, alone.size(), known);
}

}  // namespace tidemark::decide::flat
