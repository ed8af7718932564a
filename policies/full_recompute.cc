#include "planner/policy.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  return {.plan = to_plan(request.problem, recompute_all(request.gaps), "full-recompute")};
}

}  // namespace

extern const Policy kFullRecompute;
const Policy kFullRecompute = {
    .name = "full-recompute",
    .help =
        "keep layer inputs and recorded routing, rebuild everything else in backward (full activation checkpointing)",
    .decide = decide};

}  // namespace tidemark
