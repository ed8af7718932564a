#pragma once
// Blocks that never meet, neither directly nor through others, can be packed each for themselves.

#include <cstdint>
#include <vector>

#include "planner/layout/blocks.h"

namespace tidemark::layout {

/// Rows of blocks that meet directly or through others, ascending; groups in the order of their first rows.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> independent_groups(const Blocks& blocks);

}  // namespace tidemark::layout
