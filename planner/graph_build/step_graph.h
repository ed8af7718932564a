#pragma once
// From a job description to one pipeline rank's step as a Graph.
//
// Versions: version 0 is what a storage holds when the step begins (nothing, unless it is a parameter, a gradient or
// optimizer state); its n-th write makes version n. An op that updates in place reads version n and writes n + 1; dW
// ops add to their gradient, so their write implies the read.
//
// Blocks and sites: one site per (chunk, layer, micro-batch); MTP module n is layer `layers + n`; embedding, head and
// send buffers have layer -1. Static storages have one site per layer or end, with micro-batch -1, and come first. The
// input `x` of a layer is written by whatever runs before it, the receive of another rank included, and is the layer's
// checkpoint: no recipe restores it. The router's output has no recipe either: recorded routing is never decided again.

#include "core/graph.h"
#include "core/machine.h"
#include "core/result.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

/// The whole step of pipeline rank `rank`: every forward and backward pass of every chunk and micro-batch in schedule
/// order, P2P messages, gradient reduction and optimizer step; parameters, gradients and optimizer state as storages
/// that live all step. `load` is the expert load f that every routed site holds memory for (its time: built_load,
/// site_loads.h). Deterministic. REQUIRES: find_problems(job) is
/// empty, 0 <= rank < pipeline. `machine` gives hardware-dependent shapes (softmax statistics) and the relative op
/// times by which overlapped passes are interleaved.
[[nodiscard]] Result<Graph> build_step_graph(const JobSpec& job, const Machine& machine, std::int32_t rank,
                                             double load);

}  // namespace tidemark::graph_build
