#pragma once
// A clock walk (clock_walk.h) section by section: a section that ends above a ceiling is placed again by other variants
// of the walk, and the sections before it stay as they are. A bad moment is mended where it is, so the height does not
// grow with the length of the clock.
//
//   bytes ^ ceiling --------------------------------
//         |  aaa |  b#b  |  c c  |                    #: above the ceiling; b alone is placed again
//         +------+-------+-------+--> clock           each section holds what is born in it

#include <functional>
#include <vector>

#include "planner/layout/blocks.h"

namespace tidemark::layout {

/// Addresses per block. Up to `ceiling` where each section has a variant that keeps to it; from a section without one
/// on, up to the lowest that was found for it. `backward`: from the end of the clock to its beginning. `load`: the peak
/// of live bytes. Told to stop, it takes the first variant for what is left. About as many placements as blocks, twice;
/// each further variant costs those of its section. REQUIRES: blocks.plain(), load > 0, ceiling > 0.
[[nodiscard]] std::vector<Bytes> walk_in_sections(const Blocks& blocks, bool backward, Bytes load, Bytes ceiling,
                                                  const std::function<bool()>& should_stop);

}  // namespace tidemark::layout
