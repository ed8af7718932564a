#pragma once
// Host memory for storages that are larger than planned, the counterpart of core/dynamic_region.h: a planned copy out
// keeps its slot in the pinned arena and puts what exceeds it into spare pinned memory, in pieces, because a copy can
// be split anywhere. Pieces are interchangeable, so nothing fragments, and they are taken in the order of the compute
// clock: a set of copies fits whenever at every half-step the sum of their pieces does.
//
// The spare memory stands behind what the plan uses of the arena: [height + dynamic_bytes, capacity).

#include <cstdint>

#include "core/bytes.h"
#include "core/layout.h"
#include "core/program.h"

namespace tidemark {

inline constexpr Bytes kHostPiece = 256 * kKiB;

/// Pieces that a copy of actual_bytes takes beyond a slot of planned_bytes.
[[nodiscard]] std::int64_t spare_pieces(Bytes planned_bytes, Bytes actual_bytes);

/// Whole pieces that the pinned arenas of the layout have room for.
[[nodiscard]] std::int64_t spare_host_room(const Layout& layout);

/// The most pieces in use at once while no site's load exceeds `load`. O(residencies + compute clock).
[[nodiscard]] std::int64_t spare_host_demand(const Program& program, double load);

}  // namespace tidemark
