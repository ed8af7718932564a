#pragma once
// From decisions to tasks: places recompute steps before the ops that need them, issues copies in the windows it is
// given, and adds every wait that data and the reuse of bytes rely on. One pass over the ops; O(tasks + waits).
//
// Where a residency is last touched on a lane nobody waits for (a send, a copy out), a compute op is made to wait for
// it as soon as the nominal timeline says it will be over, so that its bytes come back without stalling anything.

#include <cstdint>
#include <vector>

#include "core/graph.h"
#include "core/liveness.h"
#include "core/machine.h"
#include "core/plan.h"
#include "core/result.h"
#include "core/schedule.h"
#include "planner/simulate/simulator.h"

namespace tidemark::schedule {

/// When the bytes are released that an op touches last, by the nominal timeline. A collective that ends a little ahead
/// of a compute op may end behind it where work is added, so a quarter of it, at most 0.1 ms, is allowed for
/// (docs/design/step_relaxation.md).
[[nodiscard]] std::int64_t release_ns(const Graph& graph, const simulate::Timeline& nominal, OpId op);

struct ScheduleInput {
  const Graph& graph;
  const Liveness& liveness;
  const simulate::Timeline& nominal;  ///< per op of the graph, with everything kept
  const Plan& plan;
};

/// Errors (internal): a recipe whose source is not in memory where it runs, or copies that do not fit their gap.
[[nodiscard]] Result<Schedule> build_schedule(const ScheduleInput& input);

/// Estimated duration of every task, for the simulator and simulated back ends.
[[nodiscard]] std::vector<std::int64_t> task_durations(const Graph& graph, const Schedule& schedule,
                                                       const Machine& machine, double time_scale = 1.0);

/// The same with what copies cost the compute lane (launch, device memory bandwidth) added to the compute task before
/// each: what a step is modelled and simulated with. Empty estimates stay empty.
[[nodiscard]] std::vector<std::int64_t> charged_durations(const Graph& graph, const Schedule& schedule,
                                                          const Machine& machine, std::vector<std::int64_t> durations);

}  // namespace tidemark::schedule
