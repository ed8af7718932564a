#include "planner/decide/flat/link_search.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "planner/decide/flat/aimed.h"
#include "planner/decide/flat/link_exchange.h"
#include "planner/decide/flat/link_views.h"
#include "planner/decide/flat/parted_progress.h"
#include "planner/decide/flat/recompute.h"
#include "planner/threads/parallel.h"

namespace tidemark::decide::flat {
namespace {

/// Views are searched for the budget over each of these as well, which leaves swaps room while they are copied.
constexpr double kHeadrooms[] = {1, 1.02, 1.06, 1.15, 1.3};
constexpr double kTryWork = 3e5;     // what a try is taken to be
constexpr double kViewsShare = 0.4;  // of its work; the rest, over the ops, goes to tries at the best it timed
constexpr std::size_t kTimedOfView = 16;
constexpr std::size_t kExchanges = 4;
constexpr double kMostTries = 200;
constexpr std::int64_t kUndoWork = 1000;  // per op, of undoing swaps that are not needed

bool stopped(const SearchLimits& limits) {
  return limits.should_stop && limits.should_stop();
}

/// What a search of one view found for a budget: the best at it and at every peak below, the lowest, and others evenly.
std::vector<Solution> found_by(const Problem& seen, const KnownRepeats& repeats, Bytes budget, double work,
                               const SearchLimits& limits) {
  std::vector<Bytes> peaks;
  for (const double headroom : kHeadrooms) peaks.push_back(static_cast<Bytes>(static_cast<double>(budget) / headroom));
  Archive archive;
  search_within(seen, {.budgets = peaks, .work = work, .repeats = &repeats}, limits, archive);
  std::vector<const Solution*> chosen{&archive.all().front()};
  const auto add = [&](const Solution* one) {
    if (one != nullptr && std::ranges::find(chosen, one) == chosen.end()) chosen.push_back(one);
  };
  for (const Bytes peak : peaks) add(archive.best_within(peak));
  const auto above = std::ranges::upper_bound(archive.all(), budget, {}, &Solution::peak_bytes);
  const auto fitting = static_cast<std::size_t>(above - archive.all().begin());
  const std::size_t some = stopped(limits) ? 0 : std::min(kTimedOfView, fitting);
  for (std::size_t i = 0; i < some; ++i) add(&archive.all()[i * fitting / some]);
  std::vector<Solution> found;
  for (const Solution* one : chosen) found.push_back(without_useless(seen, *one));
  return found;
}

}  // namespace

/// The first view is searched whatever happens.
void LinkSearch::search_views(Bytes budget, double work, const SearchLimits& limits) {
  if (offers_.empty())
    for (Problem& offered : offers_of(problem_)) offers_.push_back(std::make_unique<Offer>(std::move(offered)));
  const std::size_t views = std::size(kLinkViews), searches = offers_.size() * views;
  PartedProgress progress(limits.on_progress, searches + 1);
  std::vector<std::vector<Solution>> found(searches);
  threads::parallel_for_each(0, searches, [&](std::size_t i) {
    if (i > 0 && stopped(limits)) return;
    const Offer& offer = *offers_[i / views];
    SearchLimits some = limits;
    some.on_progress = progress.part(i);
    found[i] = found_by(as_seen(offer.problem, kLinkViews[i % views]), offer.repeats, budget,
                        work / static_cast<double>(searches), some);
  });
  for (std::vector<Solution>& of_view : found) std::ranges::move(of_view, std::back_inserter(known_));
}

/// The cheapest first, those above the budget at the end.
std::vector<LinkSearch::Timed> LinkSearch::timed_known(Bytes budget, const SearchLimits& limits) const {
  std::vector<std::optional<LinkSchedule>> linked(known_.size());
  std::atomic<bool> some_fits{false};
  threads::parallel_for_each(0, known_.size(), [&](std::size_t i) {
    if (some_fits.load(std::memory_order_relaxed) && stopped(limits)) return;
    linked[i] = timed_within(problem_, schedule_of(problem_, known_[i]), std::max(budget, known_[i].peak_bytes));
    if (linked[i] && linked[i]->peak_bytes <= budget) some_fits.store(true, std::memory_order_relaxed);
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
    if (stopped(limits)) return;
    const LinkExchange how{.budget = budget,
                           .tries = static_cast<int>(std::min(kMostTries, work / kTryWork)),
                           .cost_of = [&](const State& state) -> std::int64_t {
                             const std::optional<LinkSchedule> one = timed_within(problem_, schedule_of(state), budget);
                             return one && one->peak_bytes <= budget ? one->added_cost : -1;
                           },
                           .should_stop = limits.should_stop};
    starts[i].solution = without_useless(
        problem_, exchange_swaps(problem_, how, std::move(starts[i].solution), starts[i].linked.added_cost));
    linked[i] = timed_within(problem_, schedule_of(problem_, starts[i].solution), budget);
  });
  std::vector<Timed> better;
  for (std::size_t i = 0; i < starts.size(); ++i)
    if (linked[i]) better.push_back({.solution = std::move(starts[i].solution), .linked = *std::move(linked[i])});
  return better;
}

std::tuple<std::int64_t, Bytes, Bytes> LinkSearch::rank_of(const LinkSchedule& one) const {
  return {one.added_cost, copied_bytes(problem_, one.schedule), one.peak_bytes};
}

const LinkSearch::Timed* LinkSearch::best_fitting(const std::vector<Timed>& timed, Bytes budget) const {
  const Timed* best = nullptr;
  for (const Timed& one : timed)
    if (one.linked.peak_bytes <= budget && (best == nullptr || rank_of(one.linked) < rank_of(best->linked)))
      best = &one;
  return best;
}

/// Where copies cost nothing the views do not mind them, and what they find below the budget has more than it needs.
void LinkSearch::add_with_fewer_copies(Bytes budget, std::vector<Timed>& timed) const {
  const Timed* best = best_fitting(timed, budget);
  if (best == nullptr || best->linked.schedule.swaps.empty()) return;
  State state(problem_, budget);
  state.load(Solution(best->solution));
  undo_idle(state, kUndoWork * problem_.op_count);
  std::optional<LinkSchedule> linked = timed_within(problem_, schedule_of(state), budget);
  if (!linked || linked->peak_bytes > budget || rank_of(*linked) >= rank_of(best->linked)) return;
  timed.push_back({.solution = state.solution(), .linked = *std::move(linked)});
}

std::vector<LinkSchedule> LinkSearch::within(Bytes budget, double work, const SearchLimits& limits) {
  const auto fits = [&](const std::vector<Timed>& timed) {
    return !timed.empty() && timed.front().linked.peak_bytes <= budget;
  };
  std::vector<Timed> timed = timed_known(budget, limits);
  if (!fits(timed)) {
    search_views(budget, work * kViewsShare, limits);
    timed = timed_known(budget, limits);
  }
  std::ranges::move(exchanged(timed, budget, work * (1 - kViewsShare), limits), std::back_inserter(timed));
  if (!stopped(limits)) add_with_fewer_copies(budget, timed);
  const Timed* fitting = best_fitting(timed, budget);
  const std::optional<LinkSchedule> chosen = fitting == nullptr ? std::nullopt : std::optional(fitting->linked);
  known_.clear();
  std::vector<LinkSchedule> schedules;
  for (Timed& one : timed) {
    known_.push_back(std::move(one.solution));
    schedules.push_back(std::move(one.linked));
  }
  if (limits.on_progress) limits.on_progress(1);
  std::vector<LinkSchedule> best = best_of(std::move(schedules));
  if (chosen) best.push_back(*chosen);  // best_of() knows peaks only
  return best;
}

}  // namespace tidemark::decide::flat
