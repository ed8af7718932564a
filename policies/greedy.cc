#include "planner/decide/gaps/search.h"
#include "planner/policy.h"

namespace tidemark::policies {
namespace {

plan::PolicyAnswer decide(const plan::PolicyRequest& request) {
  if (request.problem.is_flat()) return plan::answer_of_flat(request, decide::flat::StepRule::greedy);
  const decide::gaps::SearchResult result = decide::gaps::search_greedy(
      request.problem.gaps(), request.problem.evaluator(), request.device_budget_bytes, request.host_budget_bytes);
  return plan::answer_of(request, result.choice);
}

}  // namespace

extern const plan::Policy kGreedy;
const plan::Policy kGreedy = {
    .name = "greedy",
    .help = "whole storages of a layer at a time, most bytes per added nanosecond first, until the rank fits",
    .decide = decide,
    .hides_recompute = true};

}  // namespace tidemark::policies
