#pragma once
// Long lives that come and go in the same order, as the micro-batches of a pipeline do, laid round the bytes like a
// ring: the next one begins where the last one ended, and at the top it goes on at the bottom. What is given back is
// then always next to what is free, so all that passes finds its bytes in one piece, at every moment.
//
//   bytes ^ 66|  88888    |      6, 7, 8: micro-batches; what passes finds the empty stripe, which moves down
//         | 55555  |77777 |
//         |   4444|666666 |
//         +---------------+--> clock

#include <cstdint>
#include <vector>

#include "planner/layout/blocks.h"

namespace tidemark::layout {

/// From this life on blocks are long: where the lives of a problem leave the widest space between two, as a ratio, at
/// least 2. 0: nothing of the kind. O(n log n).
[[nodiscard]] std::int64_t shortest_long_life(const Blocks& blocks);

struct Ring {
  std::vector<Bytes> addresses;  ///< per block; kAnywhere: not long
  std::size_t displaced = 0;     ///< found its place in the ring taken
};

/// Long blocks in a ring of `height` bytes. Those displaced take the next place along the ring, and what finds none
/// stands on top. Beyond `most_displaced` it is no ring: it ends there, and addresses are unspecified. O(long lives x
/// those alive together), with a constant below 100. REQUIRES: blocks.plain(), a height not below the load.
[[nodiscard]] Ring lay_in_ring(const Blocks& blocks, std::int64_t shortest_long_life, Bytes height,
                               std::size_t most_displaced);

}  // namespace tidemark::layout
