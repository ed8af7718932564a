#pragma once
// What a program can still do when more tokens arrive than it was planned for, and up to which expert load it then
// fits. The rule of what a larger storage takes, and why its sum is a guarantee, is in core/dynamic_region.h.
//
// Without contingencies the limit is the largest load at which the extras of all routed storages alive are within the
// dynamic region at every half-step. A contingency takes a storage's extra out of its gap: a storage that is larger
// than its slot is swapped out, or dropped and recomputed, although the plan keeps it. It is triggered by its own bytes
// alone, so the sum over the others is a bound whatever their loads are. The trigger is the planned size: the first row
// too many costs two granules or more of rounding already, so a later trigger would leave most of the region to
// roundings.
//
// Classes (a storage of one chunk and layer, all micro-batches) are added while that raises the limit, each time the
// one that has most to give back at the half-step that binds. Two classes may bind together: what is added without
// raising the limit stays only if a later class does.
//
// Swap or recompute: what takes less time from the compute lane, if it can be done. A swap needs room in the pinned
// arena (on top of what the plan uses, sized for the limit), a share of the links, and a gap wide enough for both
// copies. A recompute needs a pure recipe without communication or transients, whose sources are in memory where it
// runs. Recipes with communication are never used: every rank of the group would have to run them.

#include "core/program.h"
#include "planner/decide/sites/evaluator.h"
#include "planner/decide/sites/problem.h"

namespace tidemark::ladder {

struct ContingencyRequest {
  double load = 1;  ///< what the program was planned at
  Bytes host_budget = 0;
  bool chunk_dispatch = false;  ///< also looks for sections that may run in chunks (planner/ladder/chunk_search.h)
};

/// Fills program.contingencies, contingency_steps, contingency_limit_f and collective_limit_f, sections and their
/// buffers where asked for, and the dynamic bytes of the pinned arena. `choice` is what the program carries out.
/// REQUIRES: program.routed is filled, the device arena's dynamic region is set, and the plan fits.
void add_contingencies(const decide::sites::DecisionProblem& problem, const decide::gaps::Choice& choice,
                       const ContingencyRequest& request, Program& program);

}  // namespace tidemark::ladder
