#include "planner/decision/search.h"
#include "planner/policy.h"
#include "planner/sites/evaluator.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  Evaluator evaluator(request.problem);
  const SearchResult result =
      search_greedy(request.gaps, evaluator, request.device_budget_bytes, request.host_budget_bytes);
  return {.plan = to_plan(request.problem, result.choice, "greedy")};
}

}  // namespace

extern const Policy kGreedy;
const Policy kGreedy = {
    .name = "greedy",
    .help = "whole storages of a layer at a time, most bytes per added nanosecond first, until the rank fits",
    .decide = decide};

}  // namespace tidemark
