#include "planner/decision/uniform.h"
#include "planner/policy.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  return {.plan = to_plan(request.problem, choose_full_recompute(request.problem), "full-recompute")};
}

}  // namespace

extern const Policy kFullRecompute;
const Policy kFullRecompute = {
    .name = "full-recompute",
    .help =
        "keep layer inputs and recorded routing, rebuild everything else in backward (full activation checkpointing)",
    .decide = decide};

}  // namespace tidemark
