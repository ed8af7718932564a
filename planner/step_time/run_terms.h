#pragma once
// Which terms of step time a run has.

#include <string_view>

#include "core/time_term.h"
#include "planner/step_time/timed_run.h"

namespace tidemark::step_time {

/// Pure; any thread.
[[nodiscard]] TimeTerms terms_of(const TimedRun& run);

/// Of recomputing a module, by the names that RecomputedModule takes; others: operators_recomputed.
[[nodiscard]] TimeTerm term_of_module(std::string_view name);

}  // namespace tidemark::step_time
