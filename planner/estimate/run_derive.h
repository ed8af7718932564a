#pragma once
// What the frameworks make of several arguments together: defaults that are computed, switches that imply others, the
// number of devices and how they are shared out.

#include "planner/estimate/argument_draft.h"
#include "planner/estimate/argument_table.h"
#include "planner/estimate/run_problem.h"

namespace tidemark::estimate {

/// Takes what an environment says about memory.
[[nodiscard]] Problem read_environment(Draft& draft, const std::vector<Argument>& environment);

/// Completes draft.run. Problems: sizes missing or at odds with each other.
[[nodiscard]] Problem derive(Draft& draft, const RunHints& hints, Notes& notes);

/// Arguments the frameworks refuse beside each other. REQUIRES: every argument is in the draft, and nothing is derived.
[[nodiscard]] Problem refuse_combinations(const Draft& draft);

/// Names arguments that others leave without effect.
void note_unused(const Draft& draft, Notes& notes);

/// The rules sizes must obey: parts divide wholes, and products stay below 2^53, where doubles are exact. REQUIRES:
/// derive found no problem.
[[nodiscard]] Problem find_problem(const TrainingRun& run);

}  // namespace tidemark::estimate
