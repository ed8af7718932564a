#pragma once
// The independent judge of a FixedLayout. It shares the nouns with what lays out, and nothing else: it plays the
// actions of several steps, one physical granule at a time, and trusts no order but that of lanes and of the waits it
// meets.
//
// What it holds:
//   addresses  storages are aligned, inside their own range, apart; no granule of the address space has two ranges
//   memory     every granule moved is mapped where it comes from and not where it goes; so no two places share one.
//              Their number never changes: what the fullest piece needs, and what is to spare
//   content    a piece finds memory behind all it touches and, where it reads, what was last written there, through
//   every
//              move and copy; between steps likewise
//   order      two uses of a granule, or of a place in host memory, of which one writes, are ordered; a granule moves
//   only
//              when the host knows that every use of it is over
//   steps      each ends with the granules where it began
//
// Cost: O(steps x (touches + moves) x granules of a range).

#include "core/result.h"
#include "swap/captured_pieces.h"
#include "swap/fixed_layout.h"

namespace tidemark::swap {

/// Error (internal): the first rule that is broken, and where. REQUIRES: find_problem() finds none in `step`.
[[nodiscard]] Status verify_fixed_layout(const CapturedPieces& step, const FixedLayout& layout);

}  // namespace tidemark::swap
