#include "core/spare_host.h"

#include <algorithm>

namespace tidemark {
namespace {

/// Pinned memory is taken in whole pages.
constexpr Bytes kPage = 4 * kKiB;

}  // namespace

std::int64_t spare_host_room(const Layout& layout) {
  std::int64_t pieces = 0;
  for (const Arena& arena : layout.arenas)
    if (arena.space == MemorySpace::host)
      pieces += std::clamp<Bytes>(arena.capacity_bytes - round_up(arena.height_bytes, kPage), 0, arena.height_bytes) /
                kHostPiece;
  return pieces;
}

}  // namespace tidemark
