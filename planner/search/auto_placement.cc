#include "planner/search/auto_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "planner/search/layout_trial.h"
#include "planner/simulate/pass_times.h"
#include "planner/threads/parallel.h"

namespace tidemark::search {
namespace {

/// What the passes' clock leaves out (hidden communication, the end of the step) moves placements by less than this
/// against each other; a test holds what is missed.
constexpr double kClose = 1.25;
constexpr std::size_t kSimulated = 8;  ///< op by op
constexpr std::size_t kMostTried = 4;  ///< of these, and again of those with most memory to spare, are planned

plan::PlanRequest with_placement(const plan::PlanRequest& request, const Placement& placement) {
  plan::PlanRequest placed = request;
  place(request.job.model, placement, placed.job.parallel);
  placed.job.parallel.auto_placement = false;
  placed.ranks.clear();
  placed.progress = nullptr;
  return placed;
}

/// Orders placements by their steps op by op with everything kept. One is simulated only where its bound by passes does
/// not say that another is as fast.
class StepOrder {
 public:
  StepOrder(const plan::PlanRequest& request, std::span<PlacedStep> placements)
      : request_(request), placements_(placements), steps_(placements.size()) {}

  /// To be called first. Errors: those of the schedule of passes and of building a graph.
  Status bound(simulate::ChunkTimes& times) {
    for (const PlacedStep& placed : placements_) {
      const graph_build::JobSpec job = with_placement(request_, placed.placement).job;
      const Result<simulate::StageTimes> chunks = times.times_of(job);
      if (!chunks) return chunks.error();
      Result<simulate::PassClock> clock = simulate::PassClock::of(job.parallel);
      if (!clock) return clock.error();
      const Result<std::int64_t> bound = clock.value().bound_ns(chunks.value());
      if (!bound) return bound.error();
      bounds_.push_back(bound.value());
    }
    return {};
  }

  /// Brings the fastest from `place` on there; of those that are equally fast, the one that is first.
  Status settle(std::size_t place) {
    if (place + 1 == placements_.size()) return {};
    std::size_t best = place;
    for (std::size_t i = place; i < placements_.size(); ++i) {
      if (i > place && bounds_[i] >= *steps_[best]) continue;
      if (Status status = simulate(i); !status) return status;
      if (*steps_[i] < *steps_[best]) best = i;
    }
    for (; best > place; --best) {
      std::swap(placements_[best], placements_[best - 1]);
      std::swap(steps_[best], steps_[best - 1]);
      std::swap(bounds_[best], bounds_[best - 1]);
    }
    return {};
  }

  /// None from `place` on is faster.
  [[nodiscard]] std::int64_t least_ns(std::size_t place) const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = place; i < placements_.size(); ++i) least = std::min(least, steps_[i].value_or(bounds_[i]));
    return least;
  }
  [[nodiscard]] std::span<const PlacedStep> placements() const { return placements_; }

 private:
  Status simulate(std::size_t i) {
    if (steps_[i]) return {};
    plan::PlanRequest placed = with_placement(request_, placements_[i].placement);
    if (!placed.load) placed.load = request_.job.expert_load.mean;
    const Result<std::int64_t> step = keep_all_ns(std::move(placed));
    if (!step) return step.error();
    steps_[i] = step.value();
    return {};
  }

  const plan::PlanRequest& request_;
  std::span<PlacedStep> placements_;
  std::vector<std::optional<std::int64_t>> steps_;
  std::vector<std::int64_t> bounds_;
};

/// Behind those that were simulated: most memory to spare first.
void sort_by_memory(const plan::PlanRequest& request, std::vector<PlacedStep>& close) {
  if (close.size() <= kSimulated) return;
  std::vector<std::pair<Bytes, std::size_t>> spare;
  for (std::size_t i = kSimulated; i < close.size(); ++i)
    spare.emplace_back(-spare_bytes(request, with_placement(request, close[i].placement).job), i);
  std::ranges::sort(spare);
  const std::vector<PlacedStep> before = close;
  for (std::size_t i = 0; i < spare.size(); ++i) close[kSimulated + i] = before[spare[i].second];
}

/// The step with the ranks planned that are likely to be short of memory, the others with everything kept. Nothing: one
/// of them does not fit.
Result<std::optional<std::int64_t>> planned_step_ns(const plan::PlanRequest& request, const Placement& placement) {
  plan::PlanRequest placed = with_placement(request, placement);
  placed.ranks = worst_ranks(placed.job);
  placed.figures_only = true;
  placed.is_brief = true;
  // A rank that does not fit at the load that is best is planned for the mean, unless a quantile is asked for.
  if (!placed.load && request.job.expert_load.quantile == 0) placed.load = request.job.expert_load.mean;
  Result<plan::PlanOutcome> outcome = plan::plan_step(placed);
  const auto gave_up = [](const plan::RankPlan& rank) {
    return rank.figures.fits && rank.figures.rule == "last-resort";
  };
  if (outcome && std::ranges::any_of(outcome.value().ranks, gave_up)) {
    placed.is_brief = false;  // what it came to says nothing of what a whole search does
    outcome = plan::plan_step(placed);
  }
  if (!outcome) return outcome.error();
  if (!outcome.value().fits()) return std::optional<std::int64_t>();
  return std::optional(outcome.value().step.step_ns);
}

/// Static memory does not rule it out.
bool may_fit(const plan::PlanRequest& request, const Placement& placement) {
  const plan::PlanRequest placed = with_placement(request, placement);
  return static_fit(placed, placed.job).possible;
}

/// Of the first kMostTried that may fit, that which does and whose step, with the worst ranks planned, is shortest.
/// Null: none fits. `misfit` counts those that do not.
Result<const PlacedStep*> shortest_that_fits(const plan::PlanRequest& request, StepOrder& order, std::size_t& misfit) {
  const std::span<const PlacedStep> steps = order.placements();
  const PlacedStep* best = nullptr;
  std::int64_t best_ns = std::numeric_limits<std::int64_t>::max();
  std::size_t tried = 0;
  for (std::size_t place = 0; place < steps.size() && tried < kMostTried; ++place) {
    if (order.least_ns(place) >= best_ns) break;
    if (Status status = order.settle(place); !status) return status.error();
    if (!may_fit(request, steps[place].placement)) {
      ++misfit;
      continue;
    }
    ++tried;
    const Result<std::optional<std::int64_t>> step = planned_step_ns(request, steps[place].placement);
    if (!step) return step.error();
    if (!step.value()) {
      ++misfit;
      continue;
    }
    if (steps.size() == 1) return &steps[place];
    if (*step.value() >= best_ns) continue;
    best_ns = *step.value();
    best = &steps[place];
  }
  return best;
}

/// Null: none of the first kMostTried that may fit does.
Result<const PlacedStep*> first_that_fits(const plan::PlanRequest& request, std::span<const PlacedStep> steps,
                                          std::size_t& misfit) {
  std::size_t tried = 0;
  for (const PlacedStep& step : steps) {
    if (tried == kMostTried) break;
    if (!may_fit(request, step.placement)) {
      ++misfit;
      continue;
    }
    ++tried;
    const Result<std::optional<std::int64_t>> planned = planned_step_ns(request, step.placement);
    if (!planned) return planned.error();
    if (planned.value()) return &step;
    ++misfit;
  }
  return static_cast<const PlacedStep*>(nullptr);
}

}  // namespace

Result<AutoPlacement> place_automatically(plan::PlanRequest& request, const PlacementEffort& effort) {
  simulate::PassTimeTable times(request.machine, request.load.value_or(request.job.expert_load.mean),
                                request.time_scale);
  Result<PlacementSearchResult> found = search_placements(request.job, times, effort);
  if (!found) return found.error();
  AutoPlacement placed{.bound_ns = found.value().bound_ns, .played = found.value().played};
  std::vector<PlacedStep> close = std::move(found.value().best);
  const auto most = static_cast<double>(close.front().step_ns) * kClose;
  std::erase_if(close, [&](const PlacedStep& step) { return static_cast<double>(step.step_ns) > most; });
  const std::span<PlacedStep> simulated = std::span(close).first(std::min(close.size(), kSimulated));
  StepOrder order(request, simulated);
  if (Status status = order.bound(times); !status) return status.error();
  Result<const PlacedStep*> first = shortest_that_fits(request, order, placed.misfit);
  if (first && first.value() == nullptr) {
    sort_by_memory(request, close);
    first = first_that_fits(request, std::span(close).subspan(simulated.size()), placed.misfit);
  }
  if (!first) return first.error();
  const PlacedStep* chosen = first.value();
  placed.fits = chosen != nullptr;
  if (chosen == nullptr) chosen = &close.front();
  placed.placement = chosen->placement;
  placed.passes_ns = chosen->step_ns;
  place(request.job.model, placed.placement, request.job.parallel);
  request.job.parallel.auto_placement = false;
  return placed;
}

std::string describe(const AutoPlacement& placed) {
  std::string text = placement_text(placed.placement) + fmt::format(" (modelled, {} placements played", placed.played);
  if (placed.proven())
    text += "; proven: no other placement's schedule of passes is shorter)";
  else
    text += fmt::format(
        "; no schedule of passes is more than {:.1f} % shorter)",
        100.0 * static_cast<double>(placed.passes_ns - placed.bound_ns) / static_cast<double>(placed.passes_ns));
  if (!placed.fits) return text + fmt::format("; of {} tried none fits, this is the fastest", placed.misfit);
  if (placed.misfit > 0) text += fmt::format("; {} others tried before did not fit", placed.misfit);
  return text;
}

}  // namespace tidemark::search
