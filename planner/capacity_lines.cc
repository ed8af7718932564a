#include "planner/capacity_lines.h"

#include <algorithm>
#include <array>

namespace tidemark::plan {
namespace {

constexpr std::array kFactors = {1.0, 1.1, 1.2, 1.3, 1.4, 1.5};

CapacityLine line_of(const CapacityChoice& choice, const PlanOutcome& outcome) {
  CapacityLine line{.choice = choice, .ranks = static_cast<int>(outcome.ranks.size()), .step = outcome.step};
  const auto [low, high] =
      std::ranges::minmax_element(outcome.ranks, {}, [](const RankPlan& rank) { return rank.figures.load; });
  line.least_load = low->figures.load;
  line.most_load = high->figures.load;
  for (const RankPlan& rank : outcome.ranks) {
    line.kept_bytes = std::max(line.kept_bytes, rank.figures.reserve_bytes + rank.liveness.peak_bytes);
    line.peak_bytes = std::max(line.peak_bytes, rank.figures.peak_bytes);
    line.fitting += rank.figures.fits ? 1 : 0;
  }
  return line;
}

}  // namespace

std::vector<CapacityChoice> capacity_choices(bool pads) {
  using Level = graph_build::MoeSpec::CapacityLevel;
  std::vector<CapacityChoice> choices = {{}};
  for (const Level level : {Level::expert, Level::device})
    for (const double factor : kFactors) choices.push_back({.factor = factor, .level = level, .pads = pads});
  return choices;
}

graph_build::JobSpec with_capacity(graph_build::JobSpec job, const CapacityChoice& choice) {
  job.model.moe.capacity_factor = choice.factor;
  job.model.moe.capacity_level = choice.level;
  job.model.moe.pad_to_capacity = choice.pads;
  return job;
}

Result<std::vector<CapacityLine>> capacity_lines(const PlanRequest& request, const std::vector<CapacityChoice>& choices,
                                                 const std::function<void(int done)>& on_line) {
  std::vector<CapacityLine> lines;
  for (const CapacityChoice& choice : choices) {
    if (on_line) on_line(static_cast<int>(lines.size()));
    PlanRequest one = request;
    one.job = with_capacity(request.job, choice);
    one.figures_only = true;
    const Result<PlanOutcome> outcome = plan_step(one);
    if (!outcome) return outcome.error();
    lines.push_back(line_of(choice, outcome.value()));
  }
  return lines;
}

}  // namespace tidemark::plan
