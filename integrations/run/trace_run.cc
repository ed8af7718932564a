#include "integrations/run/trace_run.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <span>
#include <utility>

#include "integrations/run/plan_ranks.h"
#include "integrations/run/sim_run.h"

namespace tidemark::run {
namespace {

void count(const swap::RunReport& report, RungCounts& rungs) {
  rungs[static_cast<std::size_t>(Rung::room)] += std::ssize(report.oversized);
  rungs[static_cast<std::size_t>(Rung::spill)] += std::ssize(report.spills);
  rungs[static_cast<std::size_t>(Rung::chunks)] += std::ssize(report.sections);
}

}  // namespace

Result<TraceRun> TraceRun::open(const plan::PlanOutcome& plan, const Machine& machine,
                                const graph_build::LoadShape& shape, const TraceAsk& ask) {
  TraceRun run(plan, machine, shape, ask);
  if (ranks_of(plan, ask.rank).empty()) return no_such_rank(plan, ask.rank);
  run.matched_ = !ask.rank && simulated(plan).has_value();
  const Result<TracedStep> planned = run.play_device(nullptr, 0);
  if (!planned) return planned.error();
  if (!planned.value().refused.empty()) return infeasible(planned.value().refused);
  run.planned_ns_ = planned.value().step_ns;
  return run;
}

Result<TracedStep> TraceRun::play_device(const StepLoads* loads, std::int64_t device) const {
  const std::span<const plan::RankPlan> ranks = ranks_of(*plan_, ask_.rank);
  SimRunRequest request{.ranks = ranks,
                        .machine = *machine_,
                        .check_races = ask_.check_races,
                        .match_messages = matched_,
                        .measure_stall = false};
  const auto rank_plan = [&](std::int32_t rank) -> const plan::RankPlan& {
    return *std::ranges::find_if(ranks, [&](const plan::RankPlan& r) { return r.figures.rank == rank; });
  };
  if (loads != nullptr)
    request.load = [&](std::int32_t rank, SiteId id) {
      const Site& site = rank_plan(rank).graph.sites[row(id)];
      return loads->at(site.layer, site.micro_batch, device);
    };
  TracedStep traced{.device = device};
  const Result<SimRun> run = run_on_sim(request);
  if (!run && run.error().code != Error::Code::infeasible) return run.error();
  if (!run) {
    traced.refused = run.error().message;
    return traced;
  }
  traced.step_ns = run.value().step_ns;
  for (const SimRankRun& rank : run.value().ranks) {
    traced.races += rank.races;
    if (traced.first_race.empty() && !rank.race_texts.empty()) traced.first_race = rank.race_texts.front();
    count(rank.report, traced.rungs);
  }
  return traced;
}

Result<std::vector<TracedStep>> TraceRun::play(std::int64_t step, const StepLoads& loads) const {
  const std::int64_t first = ask_.device.value_or(0), count = ask_.device ? 1 : shape_.devices;
  std::vector<Result<TracedStep>> played(static_cast<std::size_t>(count), TracedStep{});
  tbb::parallel_for(std::int64_t{0}, count,
                    [&](std::int64_t i) { played[static_cast<std::size_t>(i)] = play_device(&loads, first + i); });
  std::vector<TracedStep> steps;
  for (Result<TracedStep>& one : played) {
    if (!one) return one.error();
    steps.push_back(std::move(one).value());
    steps.back().step = step;
  }
  return steps;
}

}  // namespace tidemark::run
