#include "planner/search/auto_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
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

Result<bool> fits(const plan::PlanRequest& request, const Placement& placement) {
  plan::PlanRequest placed = with_placement(request, placement);
  placed.ranks = worst_ranks(placed.job);
  placed.figures_only = true;
  placed.is_brief = true;
  // A rank that does not fit at the load that is best is planned for the mean, unless a quantile is asked for.
  if (!placed.load && request.job.expert_load.quantile == 0) placed.load = request.job.expert_load.mean;
  const Result<plan::PlanOutcome> outcome = plan::plan_step(placed);
  if (!outcome) return outcome.error();
  return outcome.value().fits();
}

/// Null: none of the first kMostTried that static memory does not rule out. `misfit` counts those passed over;
/// `settle` is told each place before it is looked at.
Result<const PlacedStep*> first_that_fits(const plan::PlanRequest& request, std::span<const PlacedStep> steps,
                                          const std::function<Status(std::size_t place)>& settle, std::size_t& misfit) {
  std::size_t planned = 0;
  for (std::size_t place = 0; place < steps.size(); ++place) {
    if (Status status = settle(place); !status) return status.error();
    const plan::PlanRequest tried = with_placement(request, steps[place].placement);
    if (static_fit(tried, tried.job).possible) {
      const Result<bool> does_fit = fits(request, steps[place].placement);
      if (!does_fit) return does_fit.error();
      if (does_fit.value()) return &steps[place];
      ++planned;
    }
    ++misfit;
    if (planned == kMostTried) break;
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
  Result<const PlacedStep*> first = first_that_fits(
      request, simulated, [&](std::size_t place) { return order.settle(place); }, placed.misfit);
  if (first && first.value() == nullptr) {
    sort_by_memory(request, close);
    first = first_that_fits(
        request, std::span(close).subspan(simulated.size()), [](std::size_t) { return Status(); }, placed.misfit);
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
