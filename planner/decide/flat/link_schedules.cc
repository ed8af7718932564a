#include "planner/decide/flat/link_schedules.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>

#include "planner/decide/flat/copy_times.h"
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
constexpr View kViewsOfRule[] = {kViews[0], kViews[2]};  // a rule that is there for its speed has two, of long lists

std::span<const View> views_for(std::int32_t ops, StepRule rule) {
  if (rule == StepRule::greedy && ops > kLongOps) return kViewsOfRule;
  return kViews;
}

/// Of a search without a link. Few ops are looked at so thoroughly each time that a part of it does; of many, time is
/// short.
double effort_of_view(std::int32_t ops) {
  return ops <= kFewOps ? 0.1 : ops <= kLongOps ? 0.4 : 0.25;
}

/// Room above a schedule's own peak that its pages are timed in as well.
constexpr double kRooms[] = {1, 1.005, 1.02, 1.05, 1.1, 1.2, 1.4};
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

/// A schedule in the room of its own peak and in more, until nothing waits.
std::vector<LinkSchedule> timed(const Problem& problem, const Solution& solution) {
  RunOrder untimed = schedule_of(problem, without_useless(problem, solution));
  for (RunOrder::Swap& swap : untimed.swaps)
    swap = {.storage = swap.storage, .after = swap.after, .before = swap.before};
  const Bytes peak = carry_out(problem, untimed).peak_bytes;
  std::vector<LinkSchedule> found;
  for (const double room : kRooms) {
    const auto limit = static_cast<Bytes>(std::ceil(static_cast<double>(peak) * room));
    RunOrder schedule = untimed.swaps.empty() ? untimed : time_copies(problem, untimed, std::max(limit, peak));
    RunOutcome outcome = carry_out(problem, schedule);
    if (!holds(problem, outcome)) return {};
    drop_idle_pages(problem, schedule, outcome);
    found.push_back(
        {.peak_bytes = outcome.peak_bytes, .added_cost = outcome.added_cost, .schedule = std::move(schedule)});
    if (outcome.waited == 0) break;
  }
  return found;
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

}  // namespace

std::vector<LinkSchedule> find_link_schedules(const Problem& problem, const SearchLimits& limits) {
  std::vector<Problem> offered(2, problem);
  fit_host(offered[0], false);
  fit_host(offered[1], true);
  if (offered[0].swappable == offered[1].swappable) offered.pop_back();
  SearchLimits limits_of_view = limits;
  limits_of_view.effort *= effort_of_view(problem.op_count) / static_cast<double>(offered.size());
  const std::span<const View> views = views_for(problem.op_count, limits.rule);
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
