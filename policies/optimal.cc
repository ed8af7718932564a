#include <utility>

#include "planner/decision/search.h"
#include "planner/policy.h"
#include "planner/sites/evaluator.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  Evaluator evaluator(request.problem);
  SearchResult result = search_optimal(request.gaps, evaluator, request.device_budget_bytes, request.host_budget_bytes);
  return {.plan = to_plan(request.problem, result.choice, "optimal"), .prices = std::move(result.prices)};
}

PolicyAnswer decide_greedily(const PolicyRequest& request) {
  Evaluator evaluator(request.problem);
  const SearchResult result =
      search_greedy(request.gaps, evaluator, request.device_budget_bytes, request.host_budget_bytes);
  return {.plan = to_plan(request.problem, result.choice, "optimal")};
}

PolicyAnswer recompute_everything(const PolicyRequest& request) {
  return {.plan = to_plan(request.problem, recompute_all(request.gaps), "optimal")};
}

constexpr DecideFunction kFallbacks[] = {decide_greedily, recompute_everything};

}  // namespace

extern const Policy kOptimal;
const Policy kOptimal = {
    .name = "optimal",
    .help =
        "least added time that fits, per storage, layer, chunk and micro-batch, with a proven lower bound (default)",
    .decide = decide,
    .fallbacks = kFallbacks};

}  // namespace tidemark
