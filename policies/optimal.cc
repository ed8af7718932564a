#include <utility>

#include "planner/decision/search.h"
#include "planner/decision/uniform.h"
#include "planner/policy.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  SearchResult result = search_optimal(request.problem, request.device_budget_bytes, request.host_budget_bytes);
  PolicyAnswer answer{.plan = to_plan(request.problem, result.choice, "optimal"), .prices = std::move(result.prices)};
  return answer;
}

PolicyAnswer decide_greedily(const PolicyRequest& request) {
  const SearchResult result = search_greedy(request.problem, request.device_budget_bytes, request.host_budget_bytes);
  return {.plan = to_plan(request.problem, result.choice, "optimal")};
}

PolicyAnswer recompute_everything(const PolicyRequest& request) {
  return {.plan = to_plan(request.problem, choose_full_recompute(request.problem), "optimal")};
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
