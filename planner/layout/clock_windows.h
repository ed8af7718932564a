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

/// Gives an address below `height` to every block that has none (kAnywhere). False, and addresses unspecified: a window
/// has no answer, or the effort is over. REQUIRES: blocks.plain(); those with an address share no bytes; a height that
/// is a multiple of the alignment.
bool place_by_windows(const Blocks& blocks, Bytes height, Effort& effort, const std::function<bool()>& should_stop,
                      std::vector<Bytes>& addresses);

}  // namespace tidemark::layout
