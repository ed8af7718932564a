#include "planner/decision/search.h"
#include "planner/policy.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  const SearchResult result = search_optimal(request.problem, request.device_budget_bytes, request.host_budget_bytes);
  return {.plan = to_plan(request.problem, result.choice, "optimal"),
          .lower_bound_ns = static_cast<std::int64_t>(result.lower_bound_ns)};
}

}  // namespace

extern const Policy kOptimal;
const Policy kOptimal = {
    .name = "optimal",
    .help =
        "least added time that fits, per storage, layer, chunk and micro-batch, with a proven lower bound (default)",
    .decide = decide};

}  // namespace tidemark
