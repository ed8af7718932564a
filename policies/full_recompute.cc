#include "planner/policy.h"

namespace tidemark::policies {
namespace {

plan::PolicyAnswer decide(const plan::PolicyRequest& request) {
  return plan::answer_of(request, decide::gaps::recompute_all(request.problem.gaps()));
}

}  // namespace

extern const plan::Policy kFullRecompute;
const plan::Policy kFullRecompute = {
    .name = "full-recompute",
    .help =
        "keep layer inputs and recorded routing, rebuild everything else in backward (full activation checkpointing)",
    .decide = decide,
    .is_fixed = true};

}  // namespace tidemark::policies
