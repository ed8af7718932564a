#pragma once
// Rolling horizon: blocks in the order of their births, a window of some hundred at a time, by a search among all
// that has its place already. Of a window only the first are kept; the others were there so that they have a place.
// Where a window has no answer, some of what was kept before it is searched anew.
//
//   births   ....kkkkkkkk[ppp|wwwwwwwww].......     k: kept, p: kept next, w: in the window as well

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/layout/blocks.h"
#include "planner/layout/effort.h"

namespace tidemark::layout {

struct ClockWindow {
  std::size_t kept = 27;    ///< blocks
  std::size_t width = 107;  ///< blocks; at least `kept`
};

/// How hard to try where a window has no answer.
struct Patience {
  std::size_t tries = 10;         ///< other windows around it, at most 10
  std::int64_t work = 40'000;     ///< of repair in each, about a microsecond each
  std::size_t without_place = 6;  ///< windows of which some blocks go without
};

/// Gives an address below `height` to every block that has none (kAnywhere); those for which the search finds none
/// stand at the lowest free one above. False, and addresses unspecified: too many have none, or the effort is over.
/// REQUIRES: blocks.plain(); those with an address share no bytes; a height that is a multiple of
/// the alignment.
bool place_by_windows(const Blocks& blocks, Bytes height, const ClockWindow& window, const Patience& patience,
                      Effort& effort, const std::function<bool()>& should_stop, std::vector<Bytes>& addresses);

}  // namespace tidemark::layout
