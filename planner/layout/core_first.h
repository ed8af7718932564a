#pragma once
// The busiest moments first and exactly, then everything else into the room that is left. Where few moments come near
// the peak, the blocks alive there are few; whatever never meets them has room to spare.

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/layout/blocks.h"
#include "planner/layout/effort.h"

namespace tidemark::layout {

/// Lowers `addresses`, a packing, as far as it can, for as long as the effort lasts. Tries cores of growing size: the
/// blocks alive when the load is at least 99.9 %, 99 %, 98 %, ... of `capacity`, up to some thousand blocks. Returns
/// whether it found a lower packing. REQUIRES: blocks.plain().
bool pack_core_first(const Blocks& blocks, Bytes capacity, Effort& effort, const std::function<bool()>& should_stop,
                     std::vector<Bytes>& addresses);

}  // namespace tidemark::layout
