#include "planner/policy.h"

namespace tidemark {
namespace {

PolicyAnswer decide(const PolicyRequest& request) {
  return {.plan = {}, .cost = {.peak_bytes = request.problem.keep_all_peak_bytes()}};
}

}  // namespace

extern const Policy kKeepAll;
const Policy kKeepAll = {
    .name = "keep-all", .help = "keep every activation; the fastest step where it fits", .decide = decide};

}  // namespace tidemark
