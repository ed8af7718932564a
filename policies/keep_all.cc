#include "planner/policy.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  return answer_of(request, Choice(request.problem.gaps.size(), Action::keep));
}

}  // namespace

extern const Policy kKeepAll;
const Policy kKeepAll = {
    .name = "keep-all", .help = "keep every activation; the fastest step where it fits", .decide = decide};

}  // namespace tidemark
