#include "planner/decide/gaps/search.h"
#include "planner/policy.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  if (request.problem.is_flat()) return answer_of_flat(request, remat::StepRule::greedy);
  const SearchResult result = search_greedy(request.problem.gaps(), request.problem.evaluator(),
                                            request.device_budget_bytes, request.host_budget_bytes);
  return answer_of(request, result.choice);
}

}  // namespace

extern const Policy kGreedy;
const Policy kGreedy = {
    .name = "greedy",
    .help = "whole storages of a layer at a time, most bytes per added nanosecond first, until the rank fits",
    .decide = decide};

}  // namespace tidemark
