#pragma once
// For pipelines: what lives long in a ring, then what passes, window after window, into the bytes that the ring leaves
// in one piece.

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/layout/blocks.h"
#include "planner/layout/effort.h"

namespace tidemark::layout {

/// Lowers `addresses`, a packing, as far as it can, for as long as the effort lasts, never below `goal`. `load`: no
/// packing is lower. Returns whether it found a lower packing. REQUIRES: blocks.plain().
bool pack_ring_first(const Blocks& blocks, Bytes load, Bytes goal, Effort& effort,
                     const std::function<bool()>& should_stop, std::vector<Bytes>& addresses);

}  // namespace tidemark::layout
