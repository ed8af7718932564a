#include <utility>
#include <vector>

#include "planner/decision/search.h"
#include "planner/policy.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  SearchResult result = search_optimal(request.problem, request.device_budget_bytes, request.host_budget_bytes);
  PolicyAnswer answer{.plan = to_plan(request.problem, result.choice, "optimal"), .prices = std::move(result.prices)};
  return answer;
}

std::vector<Plan> alternatives(const PolicyRequest& request) {
  std::vector<Plan> plans;
  for (const Choice& choice :
       search_alternatives(request.problem, request.device_budget_bytes, request.host_budget_bytes))
    plans.push_back(to_plan(request.problem, choice, "optimal"));
  return plans;
}

}  // namespace

extern const Policy kOptimal;
const Policy kOptimal = {
    .name = "optimal",
    .help =
        "least added time that fits, per storage, layer, chunk and micro-batch, with a proven lower bound (default)",
    .decide = decide,
    .alternatives = alternatives};

}  // namespace tidemark
