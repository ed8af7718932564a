#include "planner/policy.h"

namespace tidemark {

PolicyAnswer answer_of(const PolicyRequest& request, const Choice& choice) {
  PolicyAnswer answer;
  answer.plan = request.evaluator.plan(choice, answer.cost);
  return answer;
}

}  // namespace tidemark
