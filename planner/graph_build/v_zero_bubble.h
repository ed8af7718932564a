#pragma once
// ZBV (V-ZB): two chunks a rank laid as a V, no bubble but the fill where forward, dX and dW take equally long, within
// the activation memory of 1F1B. Where weight gradients stand depends on the times of passes; the order of the others
// does not.
// Source: Qi et al., arXiv 2405.15362 and the zero-bubble heuristic of arXiv 2401.10241;
// docs/design/pipeline_schedules.md. Rules that the papers leave open (which rank runs which pass in a turn) are those
// of their authors' scheduler (sail-sg/zero-bubble-pipeline-parallelism), so that orders take as long as the reference
// data's.
//
// Warm-up: every rank runs forwards until the first micro-batch is back at it, then catches up with the rank before.
// From there, one dX and one forward a turn, with weight gradients in the gaps between (gap_filler.h). Four builds,
// with and without weight gradients that hold up a forward or a dX of chunk 1; the one with the shortest longest idle
// time is the answer, ties to the first. O(p·m) a build. Any thread.

#include <cstdint>

#include "core/result.h"
#include "planner/graph_build/split_schedule.h"
#include "planner/graph_build/split_times.h"

namespace tidemark::graph_build {

/// No rank holds more than 2 · ranks chunk passes. REQUIRES: times.chunks is [ranks][2]. Errors: counts below 1
/// (bad_input).
[[nodiscard]] Result<SplitSchedule> v_zero_bubble(std::int32_t ranks, std::int32_t micro_batches,
                                                  const SplitTimeTable& times);

}  // namespace tidemark::graph_build
