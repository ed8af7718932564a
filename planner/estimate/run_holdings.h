#pragma once
// A framework's run as the budget gate looks at it: one rank a pipeline stage, at the peak a budget has to hold, with
// what decides every part of it. Estimated.

#include <string>
#include <vector>

#include "core/result.h"
#include "planner/budget/holdings.h"
#include "planner/estimate/argument_table.h"
#include "planner/estimate/rank_memory.h"
#include "planner/estimate/term_controls.h"

namespace tidemark::estimate {

/// Every argument of the run is understood: the error band holds.
[[nodiscard]] bool is_understood(const ImportedRun& imported);

/// The cautious run and knobs (error_band.h) with the band of their class. A rank is the one of its stage with the
/// highest running peak; its storages are the terms of that peak and add up to it to the byte; phases are told where
/// the estimate has a figure of their own. `source`: for people. Errors (bad_input): those of estimate_stages, one
/// line. Pure, thread-safe.
[[nodiscard]] Result<budget::Holdings> run_holdings(const ImportedRun& imported, const MemoryKnobs& knobs,
                                                    const ArgumentPlaces& places, std::string source);

/// The same without storages and notes, of a run that is cautious already and its stages: what a search looks at.
[[nodiscard]] budget::Holdings bare_holdings(const TrainingRun& run, const std::vector<RankMemory>& stages);

}  // namespace tidemark::estimate
