#pragma once
// What a program can still do when more tokens arrive than it was planned for, and up to which uniform expert load.
//
// Above the planned load a routed storage no longer fits its slot; it is served from the dynamic region instead, and
// its slot is free while it is there. The device arena is mapped memory in granules, so room need not be contiguous in
// the plan's addresses: the room at a position of the clock is the dynamic region plus the whole granules of vacated
// slots. The limit is the largest uniform load at which every routed storage alive has room at every position, with all
// contingencies applied. It is modelled from the plan; what a back end without mapped memory can serve is less.
//
// A contingency swaps out one more kept storage across its gap, to its own offset and back. They are listed in levels,
// one gap class at a time over all micro-batches, routed storages first (they grow with the load), while host memory
// and link time last.

#include "core/program.h"
#include "planner/decision/evaluator.h"
#include "planner/decision/problem.h"

namespace tidemark {

/// Fills program.contingencies, contingency_limit_f and the routing slots. `choice` is what the program carries out,
/// `load` what it was planned at, `host_bytes` the pinned memory it already uses.
void add_contingencies(const DecisionProblem& problem, const Choice& choice, double load, Bytes host_budget,
                       Bytes host_bytes, Program& program);

}  // namespace tidemark
