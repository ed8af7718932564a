#include "planner/policy.h"

namespace tidemark {
namespace {

PlanCost cost_of(const remat::Problem& problem, const remat::StepPlan& step, const Plan& plan) {
  PlanCost cost{.peak_bytes = step.outcome.peak_bytes,
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

PolicyAnswer answer_of(const PolicyRequest& request, const Choice& choice) {
  PolicyAnswer answer;
  answer.plan = request.problem.evaluator().plan(choice, answer.cost);
  return answer;
}

PolicyAnswer answer_of_flat(const PolicyRequest& request, remat::StepRule rule) {
  remat::StepPlanner& planner = request.problem.flat(rule);
  remat::StepPlan step = planner.within(request.device_budget_bytes);
  const bool fits = step.fits();
  if (!fits) step = planner.lowest();
  PolicyAnswer answer{.plan = remat::plan_of(request.problem.flat_problem(), step.order)};
  if (fits) answer.least_added_ns = step.lower_bound_cost;
  answer.cost = cost_of(request.problem.flat_problem(), step, answer.plan);
  return answer;
}

}  // namespace tidemark
