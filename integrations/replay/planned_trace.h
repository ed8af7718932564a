#pragma once
// A trace as a packer sees it, and its packing as the planned arena wants it.

#include <string>
#include <vector>

#include "allocator/planned_arena.h"
#include "core/bytes.h"
#include "integrations/formats/allocation_trace.h"

namespace tidemark::replay {

struct PlannedTrace {
  std::vector<allocator::PlannedBlock> blocks;  ///< as AllocationTrace::blocks
  std::string packer;                           ///< which order won
  Bytes height_bytes = 0;                       ///< highest byte of the packing
  Bytes load_bytes = 0;  ///< most live at any time, every block rounded to the alignment: no packing is lower
};

/// Packs every block, with its pad, at a multiple of `alignment`. The clock is the position in the trace: a block takes
/// its bytes from its allocation to its free, so a free before an allocation gives its bytes to it.
[[nodiscard]] PlannedTrace plan_trace(const formats::AllocationTrace& trace, Bytes alignment, Bytes tail_pad_bytes);

}  // namespace tidemark::replay
