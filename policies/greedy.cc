#include "planner/decision/search.h"
#include "planner/policy.h"
#include "planner/sites/evaluator.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  const SearchResult result =
      search_greedy(request.gaps, request.evaluator, request.device_budget_bytes, request.host_budget_bytes);
  return answer_of(request, result.choice);
}

}  // namespace

extern const Policy kGreedy;
const Policy kGreedy = {
    .name = "greedy",
    .help = "whole storages of a layer at a time, most bytes per added nanosecond first, until the rank fits",
    .decide = decide};

}  // namespace tidemark
