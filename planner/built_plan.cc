#include "planner/built_plan.h"

#include <algorithm>
#include <utility>

#include "planner/decide/sites/problem.h"
#include "planner/layout/lay_out.h"
#include "planner/schedule/scheduler.h"

namespace tidemark::plan {
namespace {

/// Units of packing work (about a microsecond each) on top of the orders, for each layout and step of effort beyond 1:
/// for the reference job up to 50,000 change nothing.
constexpr double kPackWork = 3'000;
/// Of a flat step, which has one rank and no site classes to trade with: about a second where the orders are not low
/// enough.
constexpr std::int64_t kFlatPackWork = 1'000'000;
/// Where its search was told to stop: an answer that lacks addresses is none.
constexpr std::int64_t kStoppedPackWork = kFlatPackWork / 4;

/// Work for one layout. The effort of packing may be any positive number; up to 1 the orders alone are asked.
std::int64_t pack_work(const decide::RankProblem& problem, const PlanRequest& request) {
  if (problem.is_flat()) return kFlatPackWork;
  return static_cast<std::int64_t>(std::clamp(kPackWork * (request.pack_effort - 1), 0.0, 1e15));
}

/// Copies of state share the links with swaps, which the search takes for idle: there the schedule itself says what is
/// added at least, since what other ranks make of it comes on top.
void correct_cost(decide::RankProblem& problem, const Schedule& schedule, decide::gaps::PlanCost& cost) {
  if (problem.state_offload().bytes == 0) return;
  const std::int64_t missing = decide::sites::added_alone_ns(problem.sites(), schedule) - cost.added_ns();
  cost.exposed_copy_ns += std::max<std::int64_t>(0, missing);
}

decide::FlatOptions flat_options(const PlanRequest& request) {
  decide::FlatOptions options;
  if (!request.step) return options;
  options.rules = request.step->rules;
  options.effort = request.step->effort;
  options.aimed = !request.step->frontier;
  options.on_progress = request.step->on_progress;
  options.on_better = request.step->on_better;
  options.should_stop = stop_question(request);
  return options;
}

}  // namespace

std::function<bool()> stop_question(const PlanRequest& request) {
  return request.step ? request.step->should_stop : nullptr;
}

Budgets budgets_of(const PlanRequest& request) {
  Budgets b;
  b.total = request.budget_bytes.value_or(request.machine.visible_bytes);
  b.reserve = reserve_of(request).total();
  b.device = std::max<Bytes>(0, b.total - b.reserve);
  b.host = request.host_budget_bytes.value_or(request.machine.host_bytes_per_device);
  return b;
}

std::unique_ptr<decide::RankProblem> make_problem(const RankRequest& request, const Budgets& budgets,
                                                  const RankPlan& plan, decide::sites::OffloadChoice choice,
                                                  decide::sites::RunTime run_time) {
  return std::make_unique<decide::RankProblem>(
      plan.graph, plan.liveness, request.request.machine, request.nominal, request.op_ns, budgets.host,
      flat_options(request.request),
      decide::sites::ProblemOptions{.offload = std::move(choice), .run_time = run_time, .weights = request.weights});
}

decide::sites::RunTime first_run_time(const Policy& policy) {
  return policy.hides_recompute ? decide::sites::RunTime::hidden : decide::sites::RunTime::late;
}

Result<BuiltPlan> build_plan(decide::RankProblem& problem, const PolicyAnswer& answer, const Budgets& budgets,
                             const PlanRequest& request) {
  Result<Schedule> schedule = schedule::build_schedule(
      {.graph = problem.graph(), .liveness = problem.liveness(), .nominal = problem.nominal(), .plan = answer.plan});
  if (!schedule) return schedule.error();
  BuiltPlan built{.plan = answer.plan,
                  .rule = {},
                  .cost = answer.cost,
                  .schedule = std::move(schedule).value(),
                  .layout = {},
                  .policy_added_ns = answer.cost.added_ns()};
  correct_cost(problem, built.schedule, built.cost);
  const std::function<bool()> stop = stop_question(request);
  const bool stopped = stop && stop();
  built.layout = layout::lay_out(built.schedule, {.arenas = layout::device_and_host(budgets.device, budgets.host,
                                                                                    problem.machine().alignment_bytes),
                                                  .arena_of = {},
                                                  .work = stopped ? kStoppedPackWork : pack_work(problem, request),
                                                  .is_brief = request.is_brief && !problem.is_flat(),
                                                  .should_stop = stopped ? nullptr : stop});
  return built;
}

bool fits(const BuiltPlan& built, const Budgets& budgets) {
  return built.height() <= budgets.device && built.host_height() <= budgets.host;
}

bool is_better(const BuiltPlan& a, const BuiltPlan& b, const Budgets& budgets) {
  if (fits(a, budgets) != fits(b, budgets)) return fits(a, budgets);
  return fits(a, budgets) ? a.cost.weighted_ns() < b.cost.weighted_ns() : a.height() < b.height();
}

}  // namespace tidemark::plan
