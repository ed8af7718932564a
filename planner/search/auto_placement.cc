#include "planner/search/auto_placement.h"

#include <fmt/format.h>

#include <algorithm>
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

/// The first of them by their steps op by op, where there is more than one.
Status sort_by_ops(const plan::PlanRequest& request, std::vector<PlacedStep>& close) {
  const std::size_t count = std::min(close.size(), kSimulated);
  if (count < 2) return {};
  std::vector<std::pair<std::int64_t, std::size_t>> steps(count);
  Status status = threads::parallel_try_each(count, [&](std::size_t i) -> Status {
    plan::PlanRequest placed = with_placement(request, close[i].placement);
    if (!placed.load) placed.load = request.job.expert_load.mean;
    const Result<std::int64_t> step = keep_all_ns(std::move(placed));
    if (!step) return step.error();
    steps[i] = {step.value(), i};
    return {};
  });
  if (!status) return status;
  std::ranges::sort(steps);
  const std::vector<PlacedStep> by_passes(close.begin(), close.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = 0; i < count; ++i) close[i] = by_passes[steps[i].second];
  return {};
}

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
  const Result<plan::PlanOutcome> outcome = plan::plan_step(placed);
  if (!outcome) return outcome.error();
  return outcome.value().fits();
}

/// Null: none of the first kMostTried that static memory does not rule out. `misfit` counts those passed over.
Result<const PlacedStep*> first_that_fits(const plan::PlanRequest& request, std::span<const PlacedStep> steps,
                                          std::size_t& misfit) {
  std::size_t planned = 0;
  for (const PlacedStep& step : steps) {
    const plan::PlanRequest tried = with_placement(request, step.placement);
    if (static_fit(tried, tried.job).possible) {
      const Result<bool> does_fit = fits(request, step.placement);
      if (!does_fit) return does_fit.error();
      if (does_fit.value()) return &step;
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
  if (Status status = sort_by_ops(request, close); !status) return status.error();
  const std::size_t simulated = std::min(close.size(), kSimulated);
  Result<const PlacedStep*> first = first_that_fits(request, std::span(close).first(simulated), placed.misfit);
  if (first && first.value() == nullptr) {
    sort_by_memory(request, close);
    first = first_that_fits(request, std::span(close).subspan(simulated), placed.misfit);
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
