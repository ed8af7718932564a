#pragma once
// What one layer costs on the compute lane, and the factor that makes it cost what somebody measured.

#include "core/machine.h"
#include "core/result.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

/// Modelled compute-lane time of forward and backward of one decoder layer and one micro-batch at expert load `load`,
/// averaged over all layers and micro-batches, in ns. Communication is not part of it: it runs on other lanes.
[[nodiscard]] Result<double> mean_layer_ns(const JobSpec& job, const Machine& machine, double load);

/// PlanRequest::time_scale at which mean_layer_ns equals `wanted_ns`. Errors (infeasible): the layers cost nothing.
[[nodiscard]] Result<double> layer_time_scale(const JobSpec& job, const Machine& machine, double load,
                                              double wanted_ns);

}  // namespace tidemark::graph_build
