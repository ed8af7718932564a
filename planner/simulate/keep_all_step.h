#pragma once
// Every pipeline rank's graph with everything kept, its op times, and the step they make together: what plans of single
// ranks and comparisons of layouts set out from.

#include <cstdint>
#include <vector>

#include "core/graph.h"
#include "core/machine.h"
#include "core/result.h"
#include "planner/graph_build/job_spec.h"
#include "planner/simulate/simulator.h"

namespace tidemark::simulate {

struct KeepAllStep {
  std::vector<Graph> graphs;
  std::vector<std::vector<std::int64_t>> op_ns;
  StepTiming timing;
};

/// `loads`: expert load f per rank. `time_scale` multiplies compute times. REQUIRES: find_problems(job) is empty. One
/// thread.
[[nodiscard]] Result<KeepAllStep> keep_all_step(const graph_build::JobSpec& job, const Machine& machine,
                                                const std::vector<double>& loads, double time_scale);

}  // namespace tidemark::simulate
