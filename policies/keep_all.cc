#include "planner/policy.h"

namespace tidemark::policies {
namespace {

plan::PolicyAnswer decide(const plan::PolicyRequest& request) {
  return {.plan = {}, .cost = {.peak_bytes = request.problem.keep_all_peak_bytes()}};
}

}  // namespace

extern const plan::Policy kKeepAll;
const plan::Policy kKeepAll = {.name = "keep-all",
                               .help = "keep every activation; the fastest step where it fits",
                               .decide = decide,
                               .is_fixed = true};

}  // namespace tidemark::policies
