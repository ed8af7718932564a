#include "planner/decide/flat/link_schedules.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <tuple>

#include "planner/decide/flat/copy_times.h"
#include "planner/decide/flat/link_views.h"
#include "planner/decide/flat/list_length.h"
#include "planner/decide/flat/parted_progress.h"
#include "planner/decide/flat/recompute.h"
#include "planner/decide/flat/state.h"
#include "planner/threads/parallel.h"

namespace tidemark::decide::flat {
namespace {

/// Of a first look, and of long lists by a rule for its speed.
constexpr LinkView kFewViews[] = {kLinkViews[0], kLinkViews[2]};

std::span<const LinkView> views_for(std::int32_t ops, const SearchLimits& limits) {
  if (limits.first_look || (limits.rule == StepRule::greedy && ops > kLongOps)) return kFewViews;
  return kLinkViews;
}

/// Of a search without a link. Few ops are looked at so thoroughly each time that a part of it does; of many, time is
/// short.
double effort_of_view(std::int32_t ops) {
  return ops <= kFewOps ? 0.1 : ops <= kLongOps ? 0.4 : 0.25;
}

/// Times a schedule's own peak, within which its swaps are timed.
constexpr double kHeadrooms[] = {1, 1.005, 1.02, 1.05, 1.1, 1.2, 1.4};
constexpr double kTimingWork = 4e5;  // ops of all schedules of a view together

/// Host memory holds what is swapped out.
bool holds(const Problem& problem, const RunOutcome& outcome) {
  return outcome.fault.empty() && outcome.host_peak_bytes <= problem.host_bytes;
}

/// Drops swaps that are back as soon as they are gone, where ops wait no longer without them.
void drop_idle_swaps(const Problem& problem, RunOrder& schedule, RunOutcome& outcome) {
  RunOrder other = schedule;
  if (std::erase_if(other.swaps, [](const RunOrder::Swap& swap) { return swap.gone == swap.back; }) == 0) return;
  RunOutcome without = carry_out(problem, other);
  if (!holds(problem, without) || without.added_cost > outcome.added_cost || without.peak_bytes > outcome.peak_bytes)
    return;
  schedule = std::move(other);
  outcome = std::move(without);
}

/// The search ends with recomputations that later moves have made useless.
RunOrder useful(const Problem& problem, const Solution& solution) {
  return schedule_of(problem, without_useless(problem, solution));
}

/// Swaps that leave and come back at once, as in no time.
RunOrder untimed(RunOrder schedule) {
  for (RunOrder::Swap& swap : schedule.swaps)
    swap = {.storage = swap.storage, .after = swap.after, .before = swap.before};
  return schedule;
}

/// A schedule within its own peak and within more, until nothing waits.
std::vector<LinkSchedule> timed(const Problem& problem, const Solution& solution) {
  const RunOrder order = untimed(useful(problem, solution));
  const Bytes peak = carry_out(problem, order).peak_bytes;
  std::vector<LinkSchedule> found;
  for (const double headroom : kHeadrooms) {
    const auto limit = static_cast<Bytes>(std::ceil(static_cast<double>(peak) * headroom));
    RunOrder schedule = order.swaps.empty() ? order : time_copies(problem, order, std::max(limit, peak));
    RunOutcome outcome = carry_out(problem, schedule);
    if (!holds(problem, outcome)) return {};
    drop_idle_swaps(problem, schedule, outcome);
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

Bytes copied_bytes(const Problem& problem, const RunOrder& schedule) {
  Bytes bytes = 0;
  for (const RunOrder::Swap& swap : schedule.swaps) bytes += problem.bytes[static_cast<std::size_t>(swap.storage)];
  return bytes;
}

std::vector<LinkSchedule> best_of(std::vector<LinkSchedule> all) {
  std::ranges::stable_sort(all, {}, [](const LinkSchedule& one) { return std::tuple(one.peak_bytes, one.added_cost); });
  std::vector<LinkSchedule> best;
  for (LinkSchedule& one : all)
    if (best.empty() || one.added_cost < best.back().added_cost) best.push_back(std::move(one));
  return best;
}

std::optional<LinkSchedule> timed_within(const Problem& problem, RunOrder schedule, Bytes limit) {
  if (!schedule.swaps.empty()) schedule = time_copies(problem, untimed(std::move(schedule)), limit);
  RunOutcome outcome = carry_out(problem, schedule);
  if (!holds(problem, outcome)) return std::nullopt;
  drop_idle_swaps(problem, schedule, outcome);
  return LinkSchedule{
      .peak_bytes = outcome.peak_bytes, .added_cost = outcome.added_cost, .schedule = std::move(schedule)};
}

std::vector<LinkSchedule> find_link_schedules(const Problem& problem, const SearchLimits& limits) {
  const std::vector<Problem> offered = offers_of(problem);
  SearchLimits limits_of_view = limits;
  limits_of_view.effort *= effort_of_view(problem.op_count) / static_cast<double>(offered.size());
  const std::span<const LinkView> views = views_for(problem.op_count, limits);
  PartedProgress progress(limits.on_progress, offered.size() * views.size());
  std::size_t part = 0;
  std::vector<LinkSchedule> found;
  const auto stopped = [&] { return limits.should_stop && limits.should_stop(); };
  for (const Problem& offer : offered)
    for (const LinkView& view : views) {
      if (!found.empty() && stopped()) return found;
      limits_of_view.on_progress = progress.part(part++);
      const Problem seen = as_seen(offer, view);
      const Archive archive = find_schedules(seen, limits_of_view);
      const std::vector<Solution> solutions = some_of(archive.all(), problem.op_count, limits.rule);
      std::vector<std::vector<LinkSchedule>> of_solution(solutions.size());
      threads::parallel_for_each(0, solutions.size(), [&](std::size_t i) {
        const bool is_end = i == 0 || i + 1 == solutions.size();  // the lowest, and what keeps everything
        if (is_end || !stopped()) of_solution[i] = timed(seen, solutions[i]);
      });
      for (std::vector<LinkSchedule>& schedules : of_solution) std::ranges::move(schedules, std::back_inserter(found));
      found = best_of(std::move(found));
    }
  return found;
}

}  // namespace tidemark::decide::flat
