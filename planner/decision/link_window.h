#pragma once
// When the copies of swapped gaps run: D2H first come first served as their data gets ready, H2D as late as its deadlines allow
// (earliest deadline first, scheduled backwards), one transfer at a time per direction. Pure arithmetic on a nominal
// timeline; every result is turned back into op indices, the only memory clock.

#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/ids.h"

namespace tidemark {

/// One swapped gap: where its copies are anchored in program order.
struct CopyWindow {
  std::int32_t gap = 0;          ///< row in the list of gaps
  OpId ready = kNone<OpId>;      ///< last touch before the gap: the copy out starts after it
  OpId released = kNone<OpId>;   ///< op before which the compute lane waits for the copy out; device bytes are free from here
  OpId prefetch = kNone<OpId>;   ///< the copy in may start once the compute op before this op has completed; bytes are taken from here
  OpId needed = kNone<OpId>;     ///< op that waits for the copy in (the first use, or the recompute that reads it)
};

}  // namespace tidemark
