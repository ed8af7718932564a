#pragma once
// Host memory for copies of storages that are larger than planned, the counterpart of core/dynamic_region.h: a planned
// copy out keeps its slot in the pinned arena and puts what exceeds it elsewhere in pieces, because a copy can be split
// anywhere. Pieces are interchangeable, so nothing fragments. They are what the plan leaves of the pinned memory,
// [height, capacity), what stands empty in the arena for a while, and what smaller copies leave of their slots
// (swap/host_pieces.h).

#include <cstdint>

#include "core/bytes.h"
#include "core/layout.h"

namespace tidemark {

inline constexpr Bytes kHostPiece = 256 * kKiB;

/// Whole pieces that the pinned arenas of the layout have room for, up to as much again as the plan uses: twice what
/// was planned for finds room.
[[nodiscard]] std::int64_t spare_host_room(const Layout& layout);

}  // namespace tidemark
