#include "core/spare_host.h"

#include <algorithm>

namespace tidemark {

std::int64_t spare_host_room(const Layout& layout) {
  std::int64_t pieces = 0;
  for (const Arena& arena : layout.arenas)
    if (arena.space == MemorySpace::host)
      pieces += std::clamp<Bytes>(arena.capacity_bytes - arena.height_bytes, 0, arena.height_bytes) / kHostPiece;
  return pieces;
}

}  // namespace tidemark
