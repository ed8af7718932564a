#include <utility>

#include "planner/decide/gaps/search.h"
#include "planner/policy.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  if (request.problem.is_flat()) return answer_of_flat(request, remat::StepRule::optimal);
  SearchResult result = search_optimal(request.problem.gaps(), request.problem.evaluator(), request.device_budget_bytes,
                                       request.host_budget_bytes);
  PolicyAnswer answer = answer_of(request, result.choice);
  answer.prices = std::move(result.prices);
  return answer;
}

PolicyAnswer decide_greedily(const PolicyRequest& request) {
  return answer_of(request, search_greedy(request.problem.gaps(), request.problem.evaluator(),
                                          request.device_budget_bytes, request.host_budget_bytes)
                                .choice);
}

PolicyAnswer recompute_everything(const PolicyRequest& request) {
  return answer_of(request, recompute_all(request.problem.gaps()));
}

const DecideFunction kFallbacks[] = {decide_greedily, recompute_everything};

}  // namespace

extern const Policy kOptimal;
const Policy kOptimal = {
    .name = "optimal",
    .help =
        "least added time that fits, per storage, layer, chunk and micro-batch, with a proven lower bound (default)",
    .decide = decide,
    .fallbacks = kFallbacks,
    .offloads_state = true};

}  // namespace tidemark
