#include <utility>

#include "planner/decide/gaps/search.h"
#include "planner/policy.h"

namespace tidemark::policies {
namespace {

plan::PolicyAnswer decide(const plan::PolicyRequest& request) {
  if (request.problem.is_flat()) return plan::answer_of_flat(request, decide::flat::StepRule::optimal);
  decide::gaps::SearchResult result = decide::gaps::search_optimal(
      request.problem.gaps(), request.problem.evaluator(), request.device_budget_bytes, request.host_budget_bytes,
      request.is_brief ? decide::gaps::SearchDepth::brief : decide::gaps::SearchDepth::full, {}, request.start);
  plan::PolicyAnswer answer = plan::answer_of(request, result.choice);
  answer.prices = std::move(result.prices);
  return answer;
}

plan::PolicyAnswer decide_greedily(const plan::PolicyRequest& request) {
  return plan::answer_of(request, decide::gaps::search_greedy(request.problem.gaps(), request.problem.evaluator(),
                                                              request.device_budget_bytes, request.host_budget_bytes)
                                      .choice);
}

plan::PolicyAnswer recompute_everything(const plan::PolicyRequest& request) {
  return plan::answer_of(request, decide::gaps::recompute_all(request.problem.gaps()));
}

const plan::Rule kFallbacks[] = {{"greedy", decide_greedily}, {"full-recompute", recompute_everything}};

}  // namespace

extern const plan::Policy kOptimal;
const plan::Policy kOptimal = {
    .name = "optimal",
    .help =
        "shortest step found that fits, per storage, layer, chunk and micro-batch, with a proven lower bound (default)",
    .decide = decide,
    .fallbacks = kFallbacks,
    .offloads_state = true,
    .hides_recompute = true,
    .prices_step = true};

}  // namespace tidemark::policies
