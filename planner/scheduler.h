#pragma once
// From decisions to tasks: places recompute steps before the first op that needs them, issues copies in the windows the nominal
// timeline leaves, and adds every wait that reuse of bytes will rely on. O(tasks log tasks).

#include <cstdint>
#include <vector>

#include "core/graph.h"
#include "core/liveness.h"
#include "core/machine.h"
#include "core/plan.h"
#include "core/result.h"
#include "core/schedule.h"
#include "planner/decision/link_window.h"

namespace tidemark {

struct ScheduleInput {
  const Graph& graph;
  const Liveness& liveness;
  const std::vector<Gap>& gaps;  ///< of find_gaps; GapKey::gap is the ordinal
  const Plan& plan;
  /// When the plan's copies should run, per swapped gap (decision/link_window.h); same order as the swapped gaps listed.
  const std::vector<CopyWindow>& copies;
};

/// Errors (internal): a plan that names an unknown gap, or a recipe whose source is not resident and cannot be rebuilt.
[[nodiscard]] Result<Schedule> build_schedule(const ScheduleInput& input);

/// Estimated duration of every task, for the simulator and simulated back ends.
[[nodiscard]] std::vector<std::int64_t> task_durations(const Graph& graph, const Schedule& schedule, const Machine& machine,
                                                       double time_scale = 1.0);

}  // namespace tidemark
