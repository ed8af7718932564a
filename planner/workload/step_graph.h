#pragma once
// From a job description to one pipeline rank's step as a Graph.

#include "core/graph.h"
#include "core/machine.h"
#include "core/result.h"
#include "planner/workload/job_spec.h"

namespace tidemark {

/// The whole step of pipeline rank `rank`: every forward and backward pass of every chunk and micro-batch in schedule order,
/// P2P messages, gradient reduction and optimizer step; parameters, gradients and optimizer state as storages that live
/// all step. `load` is the expert load f of every routed site. Deterministic. REQUIRES: find_problems(job) is empty,
/// 0 <= rank < pipeline. `machine` gives hardware-dependent shapes (softmax statistics) and the relative op times by
/// which overlapped passes are interleaved.
[[nodiscard]] Result<Graph> build_step_graph(const JobSpec& job, const Machine& machine, std::int32_t rank, double load);

}  // namespace tidemark
