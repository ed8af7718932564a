#include "planner/rank_planner.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "core/fingerprint.h"
#include "core/verify.h"
#include "planner/any_load.h"
#include "planner/built_plan.h"
#include "planner/decide/flat/bound.h"
#include "planner/decide/rank_problem.h"
#include "planner/graph_build/liveness.h"
#include "planner/last_resort.h"
#include "planner/misfit.h"
#include "planner/offload_loop.h"
#include "planner/planned_load.h"
#include "planner/schedule/peak.h"
#include "planner/schedule/program_rows.h"
#include "planner/schedule/scheduler.h"

namespace tidemark::plan {
namespace {

/// The half-step with the most device bytes, and the name of the op there.
std::string name_peak(const Graph& graph, const Schedule& schedule) {
  const auto at = static_cast<std::size_t>(schedule::peak_clock(schedule));
  std::size_t compute = 0;
  for (const Task& task : schedule.tasks) {
    if (task.lane != Lane::compute) continue;
    if (compute++ < at / 2) continue;
    const Site& site = graph.sites[row(task.site)];
    std::string name = graph.op_templates[row(task.op_template)].name;
    if (task.kind == TaskKind::recompute) name += " (recomputed)";
    name += ", chunk " + std::to_string(site.chunk);
    if (site.layer >= 0) name += ", layer " + std::to_string(site.layer);
    if (site.micro_batch >= 0) name += ", micro-batch " + std::to_string(site.micro_batch);
    return name;
  }
  return "end of step";
}

void fill_figures(const RankRequest& in, decide::RankProblem& problem, const BuiltPlan& built, const Budgets& budgets,
                  double lower_bound_ns, RankPlan& plan) {
  RankFigures& f = plan.figures;
  f.rank = plan.graph.rank;
  f.rule = built.rule.empty() ? "last-resort" : built.rule;
  f.load = in.load;
  f.budget_bytes = budgets.total;
  f.reserve_bytes = budgets.reserve;
  f.static_bytes = problem.persistent_bytes();
  f.peak_bytes = budgets.reserve + built.height();
  f.activation_peak_bytes = built.height() - f.static_bytes;
  f.host_bytes = built.host_height();
  f.offloaded_bytes = problem.state_offload().bytes;
  f.offload_ns = problem.state_offload().added_ns();
  f.swapped_bytes_per_step = built.cost.swapped_bytes;
  f.recompute_ns = built.cost.recompute_ns;
  f.hidden_recompute_ns = built.cost.hidden_recompute_ns;
  f.exposed_communication_ns = built.cost.exposed_communication_ns;
  f.exposed_copy_ns = built.cost.exposed_copy_ns;
  f.copy_overhead_ns = built.cost.copy_overhead_ns;
  f.added_ns = built.cost.added_ns();
  f.fits = fits(built, budgets);
  // Where nothing fits there is no added time to bound.
  f.lower_bound_ns = f.fits ? static_cast<std::int64_t>(std::floor(std::max(0.0, lower_bound_ns))) : 0;
  f.peak_op = name_peak(plan.graph, built.schedule);
  if (!problem.is_flat()) return;
  const decide::flat::LeastPeak least = decide::flat::least_peak(problem.flat_problem());
  f.least_live_bytes = least.bytes;
  if (!plan.graph.ops.empty())
    f.least_live_op = plan.graph.template_of(id_of<OpId>(static_cast<std::size_t>(least.op))).name;
}

/// Everything the planner emits has passed the checker. A program that does not fit is checked as if its arenas were as
/// large as it needs.
Status verify(const Graph& graph, Program& program) {
  std::vector<Bytes> capacities;
  for (Arena& arena : program.layout.arenas) {
    capacities.push_back(arena.capacity_bytes);
    arena.capacity_bytes = std::max(arena.capacity_bytes, arena.height_bytes);
  }
  const auto violation = verify_program(graph, program);
  for (std::size_t a = 0; a < capacities.size(); ++a) program.layout.arenas[a].capacity_bytes = capacities[a];
  if (!violation) return {};
  return internal_fault("rank " + std::to_string(graph.rank) + ": the plan failed verification: " + violation->detail);
}

struct SearchedRank {
  OffloadResult found;
  std::vector<Heights> enough;  ///< of LastResort, where nothing fits
};

/// At the budget, and where that finds nothing that fits, beyond.
Result<SearchedRank> search_rank(const RankRequest& in, const Budgets& budgets, RankPlan& plan) {
  Result<std::optional<LastResort>> refused = refuse_far_budget(in, budgets, plan);
  if (!refused) return refused.error();
  if (std::optional<LastResort>& far = refused.value())
    return SearchedRank{.found = std::move(far->best), .enough = std::move(far->enough)};
  Result<OffloadResult> searched = search_offload(in, budgets, plan);
  if (!searched) return searched.error();
  SearchedRank result{.found = std::move(searched).value(), .enough = {}};
  OffloadResult& found = result.found;
  const bool is_searched = found.problem != nullptr;
  if (is_searched && !fits(found.best, budgets) && in.request.policy->is_fixed) {
    result.enough.push_back({.device = found.best.height(), .host = found.best.host_height()});
  } else if (!is_searched || (!fits(found.best, budgets) && !in.is_tentative)) {
    Result<LastResort> last = try_last_resort(in, budgets, plan);
    if (!last) return last.error();
    result.enough = std::move(last.value().enough);
    if (!is_searched || is_better(last.value().best.best, found.best, budgets)) found = std::move(last.value().best);
  }
  return result;
}

Status fill_plan(const RankRequest& in, RankPlan& plan) {
  const Budgets budgets = budgets_of(in.request);
  Result<SearchedRank> searched = search_rank(in, budgets, plan);
  if (!searched) return searched.error();
  OffloadResult found = std::move(searched.value().found);
  const std::vector<Heights> enough = std::move(searched.value().enough);
  decide::RankProblem& problem = *found.problem;
  BuiltPlan& best = found.best;
  fill_figures(in, problem, best, budgets, found.bound_ns, plan);
  if (!plan.figures.fits && !in.is_tentative)
    if (Status s = explain_misfit(in, problem, budgets, best, enough, plan); !s) return s;

  Program& program = plan.program;
  program.schedule = std::move(best.schedule);
  plan.decisions = decisions_of(plan.graph, program.schedule);
  program.layout = std::move(best.layout);
  program.layout.arenas.front().dynamic_bytes =
      std::max<Bytes>(0, budgets.device - program.layout.arenas.front().height_bytes);
  program.estimate_ns =
      schedule::task_durations(plan.graph, program.schedule, in.request.machine, in.request.time_scale);
  plan.task_ns = program.estimate_ns;
  plan.ns_per_byte = found.ns_per_byte;
  if (in.request.figures_only) {
    plan.figures.worst_load_f = 0;
    // Prices of load look at sections of rows.
    if (!is_load_asked_for(in.request)) schedule::add_program_rows(plan.graph, program);
    return {};
  }
  program.graph_fingerprint = fingerprint(plan.graph);
  program.machine_fingerprint = fingerprint(in.request.machine);
  schedule::add_program_rows(plan.graph, program);
  AnyLoad load = any_load(in.request, plan);
  plan.figures.worst_load_f = load.worst_load_f;
  if (!load.reason.empty()) plan.figures.reason = std::move(load.reason);
  if (Status s = verify(plan.graph, program); !s) return s;
  return {};
}

}  // namespace

/// REQUIRES: the graph and liveness of `plan` are there.
Result<PreparedRank> prepare_rank(Graph graph, const RankRequest& in) {
  PreparedRank prepared{.plan = std::make_unique<RankPlan>(RankPlan{.graph = std::move(graph)}), .problem = {}};
  prepared.plan->liveness = graph_build::analyse_liveness(prepared.plan->graph);
  prepared.problem = make_problem(in, budgets_of(in.request), *prepared.plan, {}, first_run_time(*in.request.policy));
  if (Status s = prepared.problem->check(); !s) return s.error();
  return prepared;
}

Result<RankPlan> plan_rank(PreparedRank prepared, RankRequest in) {
  in.problem = std::move(prepared.problem);
  if (Status s = fill_plan(in, *prepared.plan); !s) return s.error();
  return std::move(*prepared.plan);
}

Result<RankPlan> plan_rank(Graph graph, const RankRequest& in) {
  RankPlan plan{.graph = std::move(graph)};
  plan.liveness = graph_build::analyse_liveness(plan.graph);
  if (Status s = fill_plan(in, plan); !s) return s.error();
  return plan;
}

Result<std::optional<Schedule>> fixed_schedule(const RankRequest& in, RankPlan& plan) {
  plan.liveness = graph_build::analyse_liveness(plan.graph);
  const Budgets budgets = budgets_of(in.request);
  const std::unique_ptr<decide::RankProblem> problem = make_problem(in, budgets, plan);
  if (Status s = problem->check(); !s) return s.error();
  const PolicyAnswer answer = in.request.policy->decide(
      {.problem = *problem, .device_budget_bytes = budgets.device, .host_budget_bytes = budgets.host});
  if (answer.plan == Plan{}) return std::optional<Schedule>();
  Result<Schedule> schedule = schedule::build_schedule(
      {.graph = plan.graph, .liveness = plan.liveness, .nominal = in.nominal, .plan = answer.plan});
  if (!schedule) return schedule.error();
  return std::optional(std::move(schedule).value());
}

}  // namespace tidemark::plan
