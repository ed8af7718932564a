#pragma once
// V-Half and V-Min: two chunks a rank laid as a V, at about a half and a third of the activation memory of 1F1B.
// Source: Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362: one building block (the slots
// of one micro-batch's passes on all ranks), repeated every six slots; how far a rank's passes of one micro-batch are
// apart is how much it holds. What the repetition leaves idle at both ends is squeezed out as far as no rank holds
// more.
//
// Slots of the block and which end is squeezed when, which the paper leaves open, are those of its authors' scheduler
// (sail-sg/zero-bubble-pipeline-parallelism), so that orders take as long as the reference data's.
//
//   V-Min, 2 ranks, micro-batch 0 (F f: forward of chunk 0 and 1; b B: dX of chunk 1 and 0)
//   slot     0 1 2 3 4 5 6 7
//   rank 0   F . . f b . . B       the next micro-batch is the same, six slots later; dW takes free slots in turn
//   rank 1   . F f . . b B .
//
// The order does not depend on the times of passes; it is drawn for equal ones. O(m·p·log(m·p)) and O(m) for every pass
// looked at in the two ends. Any thread.

#include <cstdint>

#include "core/result.h"
#include "planner/graph_build/split_schedule.h"

namespace tidemark::graph_build {

enum class VMemory : std::uint8_t {
  half,   ///< V-Half: at most ranks / 2 + 1 micro-batches of a rank's two chunks
  third,  ///< V-Min: at most ranks / 3 + 4 / 3
};

/// Errors: counts below 1 (bad_input).
[[nodiscard]] Result<SplitSchedule> v_schedule(VMemory memory, std::int32_t ranks, std::int32_t micro_batches);

}  // namespace tidemark::graph_build
