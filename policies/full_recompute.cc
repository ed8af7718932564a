#include "planner/policy.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  return answer_of(request, recompute_all(request.problem.gaps()));
}

}  // namespace

extern const Policy kFullRecompute;
const Policy kFullRecompute = {
    .name = "full-recompute",
    .help =
        "keep layer inputs and recorded routing, rebuild everything else in backward (full activation checkpointing)",
    .decide = decide};

}  // namespace tidemark
