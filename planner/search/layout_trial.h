#pragma once
// What tells soon whether a layout is worth a plan: its static memory, the ranks likely to be short, its step with
// everything kept.

#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "planner/planner.h"

namespace tidemark::search {

/// Static memory of all ranks against the budgets.
struct StaticFit {
  bool possible = false;  ///< false: proven, no plan fits
  Bytes offloaded = 0;    ///< least that some rank has to offload, where possible
};

/// Of `job` under the budgets and the policy of `plan`. REQUIRES: find_problems(job) is empty. Any thread.
[[nodiscard]] StaticFit static_fit(const plan::PlanRequest& plan, const graph_build::JobSpec& job);

/// What the worst rank has left beside static memory, less what the policy may offload, and the inputs of the layers in
/// flight; below 0: nothing fits that keeps those on the device. REQUIRES: find_problems(job) is empty.
[[nodiscard]] Bytes spare_bytes(const plan::PlanRequest& plan, const graph_build::JobSpec& job);

/// Ranks likely to be short of memory, ascending: most layers in flight, most static memory, the output head.
[[nodiscard]] std::vector<std::int32_t> worst_ranks(const graph_build::JobSpec& job);

/// The step with everything kept, op by op: the planner plays it before anything is decided, and plans only add to it.
/// Errors: those of plan_step.
[[nodiscard]] Result<std::int64_t> keep_all_ns(plan::PlanRequest request);

}  // namespace tidemark::search
