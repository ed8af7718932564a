#include "planner/policy.h"

namespace tidemark::plan {
namespace {

decide::gaps::PlanCost cost_of(const decide::flat::Problem& problem, const decide::flat::StepPlan& step,
                               const Plan& plan) {
  decide::gaps::PlanCost cost{.peak_bytes = step.outcome.peak_bytes,
                              .host_peak_bytes = step.outcome.host_peak_bytes,
                              .exposed_copy_ns = step.outcome.waited};
  for (const Plan::Swap& swap : plan.swaps) {
    const std::size_t s = row(swap.storage);
    cost.swapped_bytes += problem.bytes[s];
    cost.copy_overhead_ns += problem.page_in[s] + (swap.copies_out ? problem.page_out[s] : 0);
  }
  cost.recompute_ns = step.outcome.added_cost - cost.copy_overhead_ns - cost.exposed_copy_ns;
  return cost;
}

}  // namespace

PolicyAnswer answer_of(const PolicyRequest& request, const decide::gaps::Choice& choice) {
  PolicyAnswer answer;
  answer.plan = request.problem.evaluator().plan(choice, answer.cost);
  return answer;
}

PolicyAnswer answer_of_flat(const PolicyRequest& request, decide::flat::StepRule rule) {
  decide::flat::StepPlanner& planner = request.problem.flat(rule);
  decide::flat::StepPlan step = planner.within(request.device_budget_bytes);
  const bool fits = step.fits();
  const bool is_infeasible = !fits && step.proven;
  if (!fits) step = planner.lowest();
  PolicyAnswer answer{.plan = decide::flat::plan_of(request.problem.flat_problem(), step.order)};
  if (fits) answer.least_added_ns = step.lower_bound_cost;
  answer.is_infeasible = is_infeasible;
  answer.cost = cost_of(request.problem.flat_problem(), step, answer.plan);
  return answer;
}

}  // namespace tidemark::plan
