#pragma once
// The modelled step as Chrome JSON trace events, for https://ui.perfetto.dev (open trace file; nothing is uploaded) or
// chrome://tracing. A process is a pipeline rank, a thread is one of its lanes; each task is one slice, named after its
// op
// (`again:` before recomputed ones), with chunk, layer and micro-batch; a counter track per rank shows device memory by
// category in GiB. Every time is modelled, none measured; tasks without duration (receives) are left out.
//
// Written piece by piece: memory use does not grow with the trace. About 100 bytes a task.

#include <cstdint>
#include <ostream>
#include <vector>

#include "core/result.h"
#include "planner/planner.h"

namespace tidemark::formats {

struct PerfettoOptions {
  std::vector<std::int32_t> ranks;     ///< empty: all that were planned
  std::int32_t memory_points = 2'000;  ///< counter samples per rank; maxima are kept
};

/// Errors (bad_input): a rank that was not planned, or the stream stopped taking bytes.
[[nodiscard]] Status write_perfetto(std::ostream& out, const plan::PlanOutcome& outcome,
                                    const PerfettoOptions& options = {});

}  // namespace tidemark::formats
