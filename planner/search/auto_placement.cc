#include "planner/search/auto_placement.h"

#include <fmt/format.h>

#include <algorithm>
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
constexpr std::size_t kMostTried = 4;  ///< placements that are planned for memory

plan::PlanRequest with_placement(const plan::PlanRequest& request, const Placement& placement) {
  plan::PlanRequest placed = request;
  place(request.job.model, placement, placed.job.parallel);
  placed.job.parallel.auto_placement = false;
  placed.ranks.clear();
  placed.progress = nullptr;
  if (!placed.load) placed.load = request.job.expert_load.mean;
  return placed;
}

/// Close to the fastest by passes; by their steps op by op where there is more than one.
Result<std::vector<PlacedStep>> candidates(const plan::PlanRequest& request, std::vector<PlacedStep> found) {
  const auto most = static_cast<double>(found.front().step_ns) * kClose;
  std::erase_if(found, [&](const PlacedStep& placed) { return static_cast<double>(placed.step_ns) > most; });
  if (found.size() == 1) return found;
  std::vector<std::pair<std::int64_t, std::size_t>> steps(found.size());
  Status status = threads::parallel_try_each(found.size(), [&](std::size_t i) -> Status {
    const Result<std::int64_t> step = keep_all_ns(with_placement(request, found[i].placement));
    if (!step) return step.error();
    steps[i] = {step.value(), i};
    return {};
  });
  if (!status) return status.error();
  std::ranges::sort(steps);
  std::vector<PlacedStep> sorted;
  for (const auto& [step, i] : steps) sorted.push_back(found[i]);
  return sorted;
}

Result<bool> fits(const plan::PlanRequest& request, const Placement& placement) {
  plan::PlanRequest placed = with_placement(request, placement);
  if (!static_fit(placed, placed.job).possible) return false;
  placed.ranks = worst_ranks(placed.job);
  placed.figures_only = true;
  placed.is_brief = true;
  const Result<plan::PlanOutcome> outcome = plan::plan_step(placed);
  if (!outcome) return outcome.error();
  return outcome.value().fits();
}

}  // namespace

Result<AutoPlacement> place_automatically(plan::PlanRequest& request, const PlacementEffort& effort) {
  simulate::PassTimeTable times(request.machine, request.load.value_or(request.job.expert_load.mean),
                                request.time_scale);
  Result<PlacementSearchResult> found = search_placements(request.job, times, effort);
  if (!found) return found.error();
  AutoPlacement placed{.bound_ns = found.value().bound_ns, .played = found.value().played};
  const Result<std::vector<PlacedStep>> close = candidates(request, std::move(found.value().best));
  if (!close) return close.error();
  const PlacedStep* chosen = nullptr;
  for (const PlacedStep& candidate : close.value()) {
    if (placed.misfit == kMostTried) break;
    const Result<bool> does_fit = fits(request, candidate.placement);
    if (!does_fit) return does_fit.error();
    if (does_fit.value()) chosen = &candidate;
    if (chosen != nullptr) break;
    ++placed.misfit;
  }
  placed.fits = chosen != nullptr;
  if (chosen == nullptr) chosen = &close.value().front();
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
  if (placed.misfit > 0) text += fmt::format("; {} faster did not fit", placed.misfit);
  if (!placed.fits) text += "; none that was tried fits, this is the fastest";
  return text;
}

}  // namespace tidemark::search
