#pragma once
// Room for passing storages too large for the gaps that long lives leave: the transients of a loss, gathered
// gradients, ... What recurs soon after it went is one need; where long lives stay out of one stretch of bytes all the
// while, every one of its kind finds a place there.

#include <cstdint>
#include <vector>

#include "planner/layout/blocks.h"

namespace tidemark::layout {

/// Bytes in one piece, wanted during [begin, end).
struct Room {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  Bytes bytes = 0;  ///< the most that such storages need together
};

/// Ascending by time, disjoint. Large: at least 1/64 of `load`; passing: for less than 0.15 of the mean life; soon:
/// within that life. O(n log n).
[[nodiscard]] std::vector<Room> rooms_for_passing(const Blocks& blocks, Bytes load);

}  // namespace tidemark::layout
