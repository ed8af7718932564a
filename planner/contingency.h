#pragma once
// What a program can still do when more tokens arrive than it was planned for, and up to which uniform expert load.

#include "core/graph.h"
#include "core/program.h"

namespace tidemark {

/// Fills program.contingencies, contingency_limit_f and the routing slots. `load` is the expert load the program was
/// planned at.
///
/// At a uniform load above `load` no routed storage fits its planned slot any more, so every routed residency alive is
/// served whole, contiguously, by the dynamic region. The limit is the largest load at which the dynamic region can
/// hold them all at every position of the clock; it is never below `load`.
void add_contingencies(const Graph& graph, double load, Bytes host_budget, Program& program);

}  // namespace tidemark
