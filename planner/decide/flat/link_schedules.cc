#include "planner/decide/flat/link_schedules.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>

#include "planner/decide/flat/aimed.h"
#include "planner/decide/flat/copy_times.h"
#include "planner/decide/flat/link_exchange.h"
#include "planner/decide/flat/list_length.h"
#include "planner/decide/flat/parted_progress.h"
#include "planner/decide/flat/rerun.h"
#include "planner/decide/flat/state.h"
#include "planner/decide/gaps/load_tree.h"
#include "planner/threads/parallel.h"

namespace tidemark::decide::flat {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// How a search sees the link.
struct View {
  double stretch = 0;  ///< of what copies take; 0: they take no time
  double price = 0;    ///< of time on the link, in costs of ops
};
/// Ops that stop for every copy; then copies beside them, from an idle link to one that is taken half of the time.
constexpr View kViews[] = {{.stretch = 0, .price = 1},
                           {.stretch = 1, .price = 0.01},
                           {.stretch = 1, .price = 0.2},
                           {.stretch = 2, .price = 0.05}};
constexpr View kFewViews[] = {kViews[0], kViews[2]};  // of a first look, and of long lists by a rule for its speed

std::span<const View> views_for(std::int32_t ops, const SearchLimits& limits) {
  if (limits.first_look || (limits.rule == StepRule::greedy && ops > kLongOps)) return kFewViews;
  return kViews;
}

/// Of a search without a link. Few ops are looked at so thoroughly each time that a part of it does; of many, time is
/// short.
double effort_of_view(std::int32_t ops) {
  return ops <= kFewOps ? 0.1 : ops <= kLongOps ? 0.4 : 0.25;
}

/// Room above a schedule's own peak that its pages are timed in as well.
constexpr double kRooms[] = {1, 1.005, 1.02, 1.05, 1.1, 1.2, 1.4};
/// The same from the budget of a search aimed at it.
constexpr double kAimedRooms[] = {1, 1.02, 1.06, 1.15, 1.3};
constexpr double kViewsShare = 0.4;  // of its work; the rest, over the ops, goes to tries at the best it timed
constexpr std::size_t kTimedOfView = 16;
constexpr std::size_t kExchanges = 4;
constexpr double kMostTries = 250;
constexpr double kTimingWork = 4e5;  // ops of all schedules of a view together

Problem as_seen(const Problem& problem, const View& view) {
  Problem seen = problem;
  for (std::size_t s = 0; s < problem.bytes.size(); ++s) {
    const auto time = [&](std::int64_t alone, double share) {
      return std::llround(static_cast<double>(alone) * share);
    };
    seen.page_out[s] += time(problem.copy_out[s].link_ns, view.price);
    seen.page_in[s] += time(problem.copy_in[s].link_ns, view.price);
    if (view.stretch == 0) continue;
    seen.out_time.push_back(time(problem.copy_out[s].link_ns, view.stretch));
    seen.in_time.push_back(time(problem.copy_in[s].link_ns, view.stretch));
  }
  if (view.stretch == 0) return seen;
  seen.stage_start.resize(problem.cost.size());
  std::exclusive_scan(problem.cost.begin(), problem.cost.end(), seen.stage_start.begin(), std::int64_t{0});
  return seen;
}

/// The op of the list before which a storage is touched for the last time whatever runs again.
std::int32_t last_possible_touch(const Problem& problem, std::int32_t storage) {
  std::int32_t last = 0;
  for (const Key use : problem.uses[at(storage)])
    last = std::max({last, stage_of(use), std::min(problem.rerun_until[at(op_of(use))], problem.op_count - 1)});
  return last;
}

/// Leaves as many storages swappable as host memory holds if all of them are out from their first touch to their last:
/// those first that cost most to compute again. `whatever_runs`: where second runs touch them later, also then.
void fit_host(Problem& problem, bool whatever_runs) {
  const Bytes host = problem.host_bytes;
  const auto cost_per_byte = [&](std::int32_t s) {
    const std::int32_t v = problem.producer[at(s)];
    if (v < 0 || problem.rerun_until[at(v)] < 0) return std::numeric_limits<double>::infinity();
    return static_cast<double>(problem.cost[at(v)]) / static_cast<double>(std::max<Bytes>(problem.bytes[at(s)], 1));
  };
  std::vector<std::int32_t> order;
  for (std::int32_t s = 0; s < problem.storage_count; ++s)
    if (problem.swappable[at(s)] != 0) order.push_back(s);
  std::ranges::stable_sort(order, std::greater<>(), cost_per_byte);
  gaps::LoadTree load(std::vector<Bytes>(at(problem.op_count), 0));
  for (const std::int32_t s : order) {
    const std::vector<Key>& uses = problem.uses[at(s)];
    const std::int32_t first = stage_of(problem.begin[at(s)]);
    const std::int32_t end =
        uses.empty() ? first : (whatever_runs ? last_possible_touch(problem, s) : stage_of(uses.back())) + 1;
    const Bytes bytes = problem.bytes[at(s)];
    if (bytes > host || load.max(first, end) > host - bytes)
      problem.swappable[at(s)] = 0;
    else
      load.add(first, end, bytes);
  }
}

/// Those that others make useless are dropped.
std::vector<LinkSchedule> best_of(std::vector<LinkSchedule> all) {
  std::ranges::stable_sort(all, {}, [](const LinkSchedule& one) { return std::tuple(one.peak_bytes, one.added_cost); });
  std::vector<LinkSchedule> best;
  for (LinkSchedule& one : all)
    if (best.empty() || one.added_cost < best.back().added_cost) best.push_back(std::move(one));
  return best;
}

/// Host memory holds what is swapped out.
bool holds(const Problem& problem, const RunOutcome& outcome) {
  return outcome.fault.empty() && outcome.host_peak_bytes <= problem.host_bytes;
}

/// Pages that are back as soon as they are gone, where ops wait no longer without them.
void drop_idle_pages(const Problem& problem, RunOrder& schedule, RunOutcome& outcome) {
  RunOrder other = schedule;
  if (std::erase_if(other.swaps, [](const RunOrder::Swap& swap) { return swap.gone == swap.back; }) == 0) return;
  RunOutcome without = carry_out(problem, other);
  if (!holds(problem, without) || without.added_cost > outcome.added_cost || without.peak_bytes > outcome.peak_bytes)
    return;
  schedule = std::move(other);
  outcome = std::move(without);
}

/// The search ends with runs that later moves have made useless.
RunOrder useful(const Problem& problem, const Solution& solution) {
  return schedule_of(problem, without_useless(problem, solution));
}

/// Pages that leave and come back at once, as in no time.
RunOrder untimed(RunOrder schedule) {
  for (RunOrder::Swap& swap : schedule.swaps)
    swap = {.storage = swap.storage, .after = swap.after, .before = swap.before};
  return schedule;
}

/// A schedule in the room of its own peak and in more, until nothing waits.
std::vector<LinkSchedule> timed(const Problem& problem, const Solution& solution) {
  const RunOrder order = untimed(useful(problem, solution));
  const Bytes peak = carry_out(problem, order).peak_bytes;
  std::vector<LinkSchedule> found;
  for (const double room : kRooms) {
    const auto limit = static_cast<Bytes>(std::ceil(static_cast<double>(peak) * room));
    RunOrder schedule = order.swaps.empty() ? order : time_copies(problem, order, std::max(limit, peak));
    RunOutcome outcome = carry_out(problem, schedule);
    if (!holds(problem, outcome)) return {};
    drop_idle_pages(problem, schedule, outcome);
    found.push_back(
        {.peak_bytes = outcome.peak_bytes, .added_cost = outcome.added_cost, .schedule = std::move(schedule)});
    if (outcome.waited == 0) break;
  }
  return found;
}

/// A schedule in that room. Nothing: host memory does not hold its pages.
std::optional<LinkSchedule> timed_within(const Problem& problem, RunOrder schedule, Bytes limit) {
  if (!schedule.swaps.empty()) schedule = time_copies(problem, untimed(std::move(schedule)), limit);
  RunOutcome outcome = carry_out(problem, schedule);
  if (!holds(problem, outcome)) return std::nullopt;
  drop_idle_pages(problem, schedule, outcome);
  return LinkSchedule{
      .peak_bytes = outcome.peak_bytes, .added_cost = outcome.added_cost, .schedule = std::move(schedule)};
}

/// Of many, so many that timing them takes no longer than finding them; the lowest and the highest are among them.
std::vector<Solution> some_of(const std::vector<Solution>& all, std::int32_t ops, StepRule rule) {
  const double fewest = rule == StepRule::greedy ? 20 : 50;
  const auto most = static_cast<std::size_t>(std::max(fewest, kTimingWork / std::max(1.0, static_cast<double>(ops))));
  if (all.size() <= most) return all;
  std::vector<Solution> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return some;
}

/// What may be paged: what host memory holds if nothing runs again, and whatever runs again.
std::vector<Problem> offers_of(const Problem& problem) {
  std::vector<Problem> offered(2, problem);
  fit_host(offered[0], false);
  fit_host(offered[1], true);
  if (offered[0].swappable == offered[1].swappable) offered.pop_back();
  return offered;
}

/// One view of one offer, and what it has come to at one budget.
class AimedView {
 public:
  AimedView(const Problem& offer, const View& view, Bytes budget) : seen_(as_seen(offer, view)), budget_(budget) {
    for (const double room : kAimedRooms) peaks_.push_back(static_cast<Bytes>(static_cast<double>(budget) / room));
  }

  void search(double work, const SearchLimits& limits) {
    search_within(seen_, {.budgets = peaks_, .work = work}, limits, archive_);
    time_some();
  }

  struct Found {
    Solution solution;
    LinkSchedule linked;
  };
  [[nodiscard]] const std::vector<Found>& found() const { return found_; }

 private:
  /// The best at every peak, and others evenly.
  void time_some() {
    std::vector<const Solution*> chosen{&archive_.all().front()};
    const auto add = [&](const Solution* one) {
      if (one != nullptr && std::ranges::find(chosen, one) == chosen.end()) chosen.push_back(one);
    };
    for (const Bytes peak : peaks_) add(archive_.best_within(peak));
    const auto above = std::ranges::upper_bound(archive_.all(), budget_, {}, &Solution::peak_bytes);
    const auto fitting = static_cast<std::size_t>(above - archive_.all().begin());
    for (std::size_t i = 0; i < std::min(kTimedOfView, fitting); ++i)
      add(&archive_.all()[i * fitting / std::min(kTimedOfView, fitting)]);
    std::vector<std::optional<LinkSchedule>> timed(chosen.size());
    threads::parallel_for_each(0, chosen.size(), [&](std::size_t i) {
      timed[i] = timed_within(seen_, useful(seen_, *chosen[i]), std::max(budget_, chosen[i]->peak_bytes));
    });
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (timed[i]) found_.push_back({.solution = *chosen[i], .linked = *std::move(timed[i])});
  }

  Problem seen_;
  Bytes budget_;
  std::vector<Bytes> peaks_;  ///< descending
  Archive archive_;
  std::vector<Found> found_;
};

/// From some of the best, on what they come to once they are timed.
std::vector<LinkSchedule> exchanged(const Problem& problem, std::vector<AimedView::Found> starts, Bytes budget,
                                    double work, const SearchLimits& limits) {
  std::erase_if(starts, [&](const AimedView::Found& one) { return one.linked.peak_bytes > budget; });
  std::ranges::stable_sort(
      starts, {}, [](const AimedView::Found& one) { return std::pair(one.linked.added_cost, one.linked.peak_bytes); });
  const auto same = [](const AimedView::Found& a, const AimedView::Found& b) {
    return a.linked.added_cost == b.linked.added_cost;
  };
  starts.erase(std::unique(starts.begin(), starts.end(), same), starts.end());
  if (starts.size() > kExchanges) starts.resize(kExchanges);
  std::vector<std::optional<LinkSchedule>> found(starts.size());
  threads::parallel_for_each(0, starts.size(), [&](std::size_t i) {
    const LinkExchange how{.budget = budget,
                           .tries = static_cast<int>(std::min(kMostTries, work / (problem.op_count + 1))),
                           .cost_of = [&](const State& state) -> std::int64_t {
                             const std::optional<LinkSchedule> one = timed_within(problem, schedule_of(state), budget);
                             return one && one->peak_bytes <= budget ? one->added_cost : -1;
                           },
                           .should_stop = limits.should_stop};
    const Solution best = exchange_pages(problem, how, starts[i].solution, starts[i].linked.added_cost);
    found[i] = timed_within(problem, useful(problem, best), budget);
  });
  std::vector<LinkSchedule> all;
  for (std::optional<LinkSchedule>& one : found)
    if (one) all.push_back(*std::move(one));
  return all;
}

}  // namespace

std::vector<LinkSchedule> find_link_schedules_within(const Problem& problem, Bytes budget, double work,
                                                     const SearchLimits& limits) {
  std::vector<AimedView::Found> found;
  std::vector<LinkSchedule> schedules;
  const std::vector<Problem> offered = offers_of(problem);
  std::vector<std::unique_ptr<AimedView>> views;
  for (const Problem& offer : offered)
    for (const View& view : kViews) views.push_back(std::make_unique<AimedView>(offer, view, budget));
  PartedProgress progress(limits.on_progress, views.size() + 1);
  threads::parallel_for_each(0, views.size(), [&](std::size_t i) {
    SearchLimits some = limits;
    some.on_progress = progress.part(i);
    views[i]->search(work * kViewsShare / static_cast<double>(views.size()), some);
  });
  for (const auto& view : views) std::ranges::copy(view->found(), std::back_inserter(found));
  for (const AimedView::Found& one : found) schedules.push_back(one.linked);
  std::ranges::move(exchanged(offered.front(), std::move(found), budget, work * (1 - kViewsShare), limits),
                    std::back_inserter(schedules));
  if (limits.on_progress) limits.on_progress(1);
  return best_of(std::move(schedules));
}

std::vector<LinkSchedule> find_link_schedules(const Problem& problem, const SearchLimits& limits) {
  const std::vector<Problem> offered = offers_of(problem);
  SearchLimits limits_of_view = limits;
  limits_of_view.effort *= effort_of_view(problem.op_count) / static_cast<double>(offered.size());
  const std::span<const View> views = views_for(problem.op_count, limits);
  PartedProgress progress(limits.on_progress, offered.size() * views.size());
  std::size_t part = 0;
  std::vector<LinkSchedule> found;
  for (const Problem& offer : offered)
    for (const View& view : views) {
      limits_of_view.on_progress = progress.part(part++);
      const Problem seen = as_seen(offer, view);
      const Archive archive = find_schedules(seen, limits_of_view);
      const std::vector<Solution> solutions = some_of(archive.all(), problem.op_count, limits.rule);
      std::vector<std::vector<LinkSchedule>> of_solution(solutions.size());
      threads::parallel_for_each(0, solutions.size(),
                                 [&](std::size_t i) { of_solution[i] = timed(seen, solutions[i]); });
      for (std::vector<LinkSchedule>& schedules : of_solution) std::ranges::move(schedules, std::back_inserter(found));
      found = best_of(std::move(found));
    }
  return found;
}

}  // namespace tidemark::decide::flat
