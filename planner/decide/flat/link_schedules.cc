#include "planner/decide/flat/link_schedules.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>

#include "planner/decide/flat/aimed.h"
#include "planner/decide/flat/copy_times.h"
#include "planner/decide/flat/link_exchange.h"
#include "planner/decide/flat/list_length.h"
#include "planner/decide/flat/parted_progress.h"
#include "planner/decide/flat/recompute.h"
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
constexpr double kTryWork = 3e5;     // what a try is taken to be
constexpr double kViewsShare = 0.4;  // of its work; the rest, over the ops, goes to tries at the best it timed
constexpr std::size_t kTimedOfView = 16;
constexpr std::size_t kExchanges = 4;
constexpr double kMostTries = 200;
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

/// What a search of one view found for a budget: the best at it and at every peak below, the lowest, and others evenly.
std::vector<Solution> found_by(const Problem& seen, Bytes budget, double work, const SearchLimits& limits) {
  std::vector<Bytes> peaks;
  for (const double room : kAimedRooms) peaks.push_back(static_cast<Bytes>(static_cast<double>(budget) / room));
  Archive archive;
  search_within(seen, {.budgets = peaks, .work = work}, limits, archive);
  std::vector<const Solution*> chosen{&archive.all().front()};
  const auto add = [&](const Solution* one) {
    if (one != nullptr && std::ranges::find(chosen, one) == chosen.end()) chosen.push_back(one);
  };
  for (const Bytes peak : peaks) add(archive.best_within(peak));
  const auto above = std::ranges::upper_bound(archive.all(), budget, {}, &Solution::peak_bytes);
  const auto fitting = static_cast<std::size_t>(above - archive.all().begin());
  const std::size_t some = std::min(kTimedOfView, fitting);
  for (std::size_t i = 0; i < some; ++i) add(&archive.all()[i * fitting / some]);
  std::vector<Solution> found;
  for (const Solution* one : chosen) found.push_back(without_useless(seen, *one));
  return found;
}

}  // namespace

void LinkSearch::search_views(Bytes budget, double work, const SearchLimits& limits) {
  std::vector<Problem> seen;
  for (const Problem& offer : offers_of(problem_))
    for (const View& view : kViews) seen.push_back(as_seen(offer, view));
  PartedProgress progress(limits.on_progress, seen.size() + 1);
  std::vector<std::vector<Solution>> found(seen.size());
  threads::parallel_for_each(0, seen.size(), [&](std::size_t i) {
    SearchLimits some = limits;
    some.on_progress = progress.part(i);
    found[i] = found_by(seen[i], budget, work / static_cast<double>(seen.size()), some);
  });
  for (std::vector<Solution>& of_view : found) std::ranges::move(of_view, std::back_inserter(known_));
}

/// The cheapest first, those above the budget at the end.
std::vector<LinkSearch::Timed> LinkSearch::timed_known(Bytes budget) const {
  std::vector<std::optional<LinkSchedule>> linked(known_.size());
  threads::parallel_for_each(0, known_.size(), [&](std::size_t i) {
    linked[i] = timed_within(problem_, schedule_of(problem_, known_[i]), std::max(budget, known_[i].peak_bytes));
  });
  std::vector<Timed> timed;
  for (std::size_t i = 0; i < known_.size(); ++i)
    if (linked[i]) timed.push_back({.solution = known_[i], .linked = *std::move(linked[i])});
  std::ranges::stable_sort(timed, {}, [&](const Timed& one) {
    return std::tuple(std::max(one.linked.peak_bytes, budget), one.linked.added_cost, one.linked.peak_bytes);
  });
  return timed;
}

/// From the cheapest that fit, on what they come to once they are timed.
std::vector<LinkSearch::Timed> LinkSearch::exchanged(std::vector<Timed> starts, Bytes budget, double work,
                                                     const SearchLimits& limits) const {
  std::erase_if(starts, [&](const Timed& one) { return one.linked.peak_bytes > budget; });
  const auto same = [](const Timed& a, const Timed& b) { return a.linked.added_cost == b.linked.added_cost; };
  starts.erase(std::unique(starts.begin(), starts.end(), same), starts.end());
  if (starts.size() > kExchanges) starts.resize(kExchanges);
  std::vector<std::optional<LinkSchedule>> linked(starts.size());
  threads::parallel_for_each(0, starts.size(), [&](std::size_t i) {
    const LinkExchange how{.budget = budget,
                           .tries = static_cast<int>(std::min(kMostTries, work / kTryWork)),
                           .cost_of = [&](const State& state) -> std::int64_t {
                             const std::optional<LinkSchedule> one = timed_within(problem_, schedule_of(state), budget);
                             return one && one->peak_bytes <= budget ? one->added_cost : -1;
                           },
                           .should_stop = limits.should_stop};
    starts[i].solution = without_useless(
        problem_, exchange_pages(problem_, how, std::move(starts[i].solution), starts[i].linked.added_cost));
    linked[i] = timed_within(problem_, schedule_of(problem_, starts[i].solution), budget);
  });
  std::vector<Timed> better;
  for (std::size_t i = 0; i < starts.size(); ++i)
    if (linked[i]) better.push_back({.solution = std::move(starts[i].solution), .linked = *std::move(linked[i])});
  return better;
}

std::vector<LinkSchedule> LinkSearch::within(Bytes budget, double work, const SearchLimits& limits) {
  const auto fits = [&](const std::vector<Timed>& timed) {
    return !timed.empty() && timed.front().linked.peak_bytes <= budget;
  };
  std::vector<Timed> timed = timed_known(budget);
  if (!fits(timed)) {
    search_views(budget, work * kViewsShare, limits);
    timed = timed_known(budget);
  }
  std::ranges::move(exchanged(timed, budget, work * (1 - kViewsShare), limits), std::back_inserter(timed));
  known_.clear();
  std::vector<LinkSchedule> schedules;
  for (Timed& one : timed) {
    known_.push_back(std::move(one.solution));
    schedules.push_back(std::move(one.linked));
  }
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
