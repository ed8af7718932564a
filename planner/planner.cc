#include "planner/planner.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/graph_build/liveness.h"
#include "planner/graph_build/load_shape.h"
#include "planner/graph_build/site_loads.h"
#include "planner/graph_build/step_graph.h"
#include "planner/planned_load.h"
#include "planner/rank_planner.h"
#include "planner/schedule/scheduler.h"
#include "planner/threads/parallel.h"

namespace tidemark::plan {
namespace {

/// Every rank's graph, its op times, and the keep-all step they make together.
struct NominalStep {
  std::vector<Graph> graphs;
  std::vector<std::vector<std::int64_t>> op_ns;
  simulate::StepTiming timing;
};

Result<NominalStep> build_nominal(const PlanRequest& request, const std::vector<double>& loads) {
  const auto ranks = static_cast<std::size_t>(request.job.parallel.pipeline);
  NominalStep nominal;
  nominal.graphs.resize(ranks);
  nominal.op_ns.resize(ranks);
  std::vector<simulate::RankWork> work(ranks);
  Status status = threads::parallel_try_each(ranks, [&](std::size_t rank) -> Status {
    Result<Graph> graph =
        graph_build::build_step_graph(request.job, request.machine, static_cast<std::int32_t>(rank), loads[rank]);
    if (!graph) return graph.error();
    nominal.graphs[rank] = std::move(graph).value();
    nominal.op_ns[rank] = cost::op_durations(nominal.graphs[rank], request.machine, request.time_scale);
    work[rank] = simulate::work_of(nominal.graphs[rank], nominal.op_ns[rank]);
    return {};
  });
  if (!status) return status.error();
  Result<simulate::StepTiming> timing = simulate::simulate_step(work);
  if (!timing) return timing.error();
  nominal.timing = std::move(timing).value();
  return nominal;
}

StepFigures summarise(const PlanRequest& request, const simulate::StepTiming& timing, const PlanOutcome& outcome,
                      std::int64_t keep_all_ns) {
  StepFigures f{.step_ns = timing.step_ns, .keep_all_step_ns = keep_all_ns};
  const auto step = static_cast<double>(timing.step_ns);
  const double total = step * static_cast<double>(timing.ranks.size());
  for (const simulate::Timeline& t : timing.ranks) {
    f.bubble_percent += 100.0 * static_cast<double>(t.receive_wait_ns + timing.step_ns - t.finish_ns) / total;
    f.exposed_communication_percent += 100.0 * static_cast<double>(t.intra_wait_ns + t.inter_wait_ns) / total;
    f.exposed_copy_percent += 100.0 * static_cast<double>(t.copy_wait_ns) / total;
  }
  for (const RankPlan& rank : outcome.ranks)
    f.recompute_percent += 100.0 * static_cast<double>(rank.figures.recompute_ns) / total;
  const double tokens =
      static_cast<double>(request.job.parallel.global_batch) * static_cast<double>(request.job.model.sequence);
  const double seconds = step * 1e-9;
  const double peak = request.machine.peak_flops_per_s * static_cast<double>(request.job.parallel.devices());
  const graph_build::TokenFlops flops = graph_build::flops_per_token(request.job.model);
  f.tokens_per_s = tokens / seconds;
  f.mfu_percent = 100.0 * flops.full_square * tokens / seconds / peak;
  f.mfu_causal_percent = 100.0 * flops.causal * tokens / seconds / peak;
  f.fullest_load = graph_build::built_load(request.job, request.machine, outcome.ranks.front().figures.load).fullest;
  return f;
}

std::vector<std::int32_t> wanted_ranks(const PlanRequest& request) {
  std::vector<std::int32_t> ranks = request.ranks;
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(request.job.parallel.pipeline));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Status check(const PlanRequest& request) {
  if (request.policy == nullptr) return internal_fault("no policy given");
  if (request.step && request.time_scale != 1) return bad_input("the costs of a given step are not scaled");
  if (request.step) return {};
  const auto problems = graph_build::find_problems(request.job);
  if (!problems.empty()) return bad_input(problems.front().key + ": " + problems.front().message);
  for (const std::int32_t rank : request.ranks)
    if (rank < 0 || rank >= request.job.parallel.pipeline)
      return bad_input("rank " + std::to_string(rank) + " does not exist: the job has pipeline ranks 0 to " +
                       std::to_string(request.job.parallel.pipeline - 1));
  return {};
}

/// Of every rank, before any is planned. `request` outlives them.
Result<std::vector<PlannedLoad>> first_loads(const PlanRequest& request) {
  const Result<graph_build::LoadShape> shape = graph_build::load_shape(request.job, request.machine);
  const PlannedLoad one = shape ? PlannedLoad(request, shape.value().devices, shape.value().most_load())
                                : PlannedLoad(request, 1, 1);  // nothing is routed
  std::vector<PlannedLoad> loads(static_cast<std::size_t>(request.job.parallel.pipeline), one);
  Status status = threads::parallel_try_each(loads.size(), [&](std::size_t r) { return loads[r].start(r); });
  if (!status) return status.error();
  return loads;
}

/// Plans the wanted ranks at the given loads, where `todo` says so.
Status plan_ranks(const PlanRequest& request, const std::vector<std::int32_t>& ranks,
                  const std::vector<PlannedLoad>& loads, const std::vector<char>& todo, NominalStep& nominal,
                  std::vector<RankPlan>& plans) {
  std::atomic<int> done{static_cast<int>(std::count(todo.begin(), todo.end(), 0))};
  return threads::parallel_try_each(ranks.size(), [&](std::size_t i) -> Status {
    if (todo[i] == 0) return {};
    const auto r = static_cast<std::size_t>(ranks[i]);
    const RankRequest in{.request = request,
                         .nominal = nominal.timing.ranks[r],
                         .op_ns = nominal.op_ns[r],
                         .load = loads[r].load(),
                         .is_tentative = loads[r].is_tentative()};
    Result<RankPlan> plan = plan_rank(std::move(nominal.graphs[r]), in);
    if (!plan) return plan.error();
    plans[i] = std::move(plan).value();
    if (request.progress) request.progress(++done, static_cast<int>(ranks.size()));
    return {};
  });
}

/// A given step has no tokens and no other rank to wait for.
StepFigures summarise_given(const simulate::StepTiming& timing, const PlanOutcome& outcome) {
  StepFigures f{.step_ns = timing.step_ns, .keep_all_step_ns = outcome.step.keep_all_step_ns};
  const auto percent = [&](std::int64_t ns) {
    return 100.0 * static_cast<double>(ns) / static_cast<double>(std::max<std::int64_t>(1, timing.step_ns));
  };
  f.exposed_copy_percent = percent(timing.ranks.front().copy_wait_ns);
  f.recompute_percent = percent(outcome.ranks.front().figures.recompute_ns);
  return f;
}

/// Plays the step: the ranks planned by their programs, the others as given. Fills timelines and figures of the step
/// but keep_all_step_ns, which it takes from there.
Status play(const PlanRequest& request, std::vector<simulate::RankWork> work, PlanOutcome& outcome) {
  for (const RankPlan& plan : outcome.ranks)
    work[static_cast<std::size_t>(plan.graph.rank)] = simulate::work_of(
        plan.graph, plan.program.schedule,
        schedule::charged_durations(plan.graph, plan.program.schedule, request.machine, plan.program.estimate_ns));
  Result<simulate::StepTiming> timing = simulate::simulate_step(work);
  if (!timing) return timing.error();
  outcome.step = request.step ? summarise_given(timing.value(), outcome)
                              : summarise(request, timing.value(), outcome, outcome.step.keep_all_step_ns);
  for (RankPlan& plan : outcome.ranks)
    plan.timeline = std::move(timing.value().ranks[static_cast<std::size_t>(plan.graph.rank)]);
  return {};
}

Result<PlanOutcome> plan_all(const PlanRequest& request, const std::vector<std::int32_t>& ranks) {
  Result<std::vector<PlannedLoad>> first = first_loads(request);
  if (!first) return first.error();
  std::vector<PlannedLoad> loads = std::move(first).value();

  PlanOutcome outcome;
  outcome.parameters = graph_build::count_parameters(request.job.model);
  outcome.ranks.resize(ranks.size());
  std::vector<char> todo(ranks.size(), 1);
  NominalStep nominal;
  std::vector<double> built;
  const auto build = [&]() -> Status {
    std::vector<double> now;
    for (const PlannedLoad& load : loads) now.push_back(load.load());
    if (now == built) return {};
    Result<NominalStep> step = build_nominal(request, now);
    if (!step) return step.error();
    nominal = std::move(step).value();
    built = std::move(now);
    return {};
  };
  while (std::count(todo.begin(), todo.end(), 1) > 0) {
    if (Status status = build(); !status) return status.error();
    if (Status status = plan_ranks(request, ranks, loads, todo, nominal, outcome.ranks); !status) return status.error();
    threads::parallel_for_each(0, ranks.size(), [&](std::size_t i) {
      if (todo[i] != 0)
        todo[i] = loads[static_cast<std::size_t>(ranks[i])].settles(outcome.ranks[i], nominal.timing.step_ns) ? 0 : 1;
    });
  }
  // A rank may have settled on a load that was tried earlier.
  if (Status status = build(); !status) return status.error();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RankFigures& f = outcome.ranks[i].figures;
    f.lower_bound_percent = 100.0 * static_cast<double>(f.lower_bound_ns) /
                            static_cast<double>(std::max<std::int64_t>(1, nominal.timing.step_ns));
  }

  outcome.step.keep_all_step_ns = nominal.timing.step_ns;
  std::vector<simulate::RankWork> others(static_cast<std::size_t>(request.job.parallel.pipeline));
  for (std::size_t r = 0; r < others.size(); ++r)
    if (!std::binary_search(ranks.begin(), ranks.end(), static_cast<std::int32_t>(r)))
      others[r] = simulate::work_of(nominal.graphs[r], nominal.op_ns[r]);
  if (Status status = play(request, std::move(others), outcome); !status) return status.error();
  for (RankPlan& plan : outcome.ranks)
    for (ReceiveEvent& receive : plan.program.receives)
      receive.arrival_estimate_ns = plan.timeline.end_ns[row(receive.task)];
  return outcome;
}

Result<PlanOutcome> plan_given(PlanRequest request) {
  const Graph& graph = *request.step->graph;
  std::atomic<bool> stopped{false};  // a search was told so
  if (request.step->should_stop)
    request.step->should_stop = [&stopped, asked = request.step->should_stop] {
      if (asked()) stopped = true;
      return stopped.load();
    };
  std::vector<std::int64_t> op_ns = cost::op_durations(graph, request.machine, request.time_scale);
  Result<simulate::StepTiming> nominal =
      simulate::simulate_step(std::vector<simulate::RankWork>{simulate::work_of(graph, op_ns)});
  if (!nominal) return nominal.error();
  Result<RankPlan> planned =
      plan_rank(graph, {.request = request, .nominal = nominal.value().ranks.front(), .op_ns = std::move(op_ns)});
  if (!planned) return planned.error();
  RankFigures& f = planned.value().figures;
  PlanOutcome outcome;
  outcome.step.keep_all_step_ns = nominal.value().step_ns;
  f.lower_bound_percent = 100.0 * static_cast<double>(f.lower_bound_ns) /
                          static_cast<double>(std::max<std::int64_t>(1, nominal.value().step_ns));
  outcome.ranks.push_back(std::move(planned).value());
  outcome.stopped = stopped;
  if (Status status = simulate_plan(request, outcome); !status) return status.error();
  return outcome;
}

}  // namespace

bool PlanOutcome::fits() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const RankPlan& r) { return r.figures.fits; });
}

Status simulate_plan(const PlanRequest& request, PlanOutcome& outcome) {
  const auto ranks = static_cast<std::size_t>(request.step ? 1 : request.job.parallel.pipeline);
  if (outcome.ranks.size() != ranks)
    return bad_input(fmt::format("the plan has {} of the {} ranks of its step; a step needs all of them",
                                 outcome.ranks.size(), ranks));
  return play(request, std::vector<simulate::RankWork>(ranks), outcome);
}

graph_build::ReserveMemory reserve_of(const PlanRequest& request) {
  return request.step ? graph_build::reserve_memory(request.machine)
                      : graph_build::reserve_memory(request.machine, request.job.parallel);
}

Result<PlanOutcome> plan_step(const PlanRequest& request) {
  if (Status status = check(request); !status) return status.error();
  std::optional<tbb::global_control> limit;
  if (request.threads > 0)
    limit.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(request.threads));
  if (request.step) return plan_given(request);
  return plan_all(request, wanted_ranks(request));
}

}  // namespace tidemark::plan
