#pragma once
// Addresses: an arena and an offset for every residency, as numbers (a base pointer is somebody else's business).

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/ids.h"
#include "core/schedule.h"

namespace tidemark {

struct Arena {
  enum class Kind : std::uint8_t { mapped, plain, pinned };
  MemorySpace space = MemorySpace::device;
  Kind kind = Kind::mapped;
  Bytes capacity_bytes = 0;
  Bytes alignment_bytes = 512;
  Bytes height_bytes = 0;  ///< highest byte used by a planned residency
  /// Bytes [height_bytes, height_bytes + dynamic_bytes) serve what exceeds a planned bound at run time.
  Bytes dynamic_bytes = 0;
  friend bool operator==(const Arena&, const Arena&) = default;
};

struct Layout {
  std::vector<Arena> arenas;
  std::vector<ArenaId> arena_of;  ///< per residency
  std::vector<Bytes> offset_of;   ///< per residency, multiple of the arena's alignment
  Bytes device_load_bytes = 0;    ///< max over the compute clock of live device bytes: lower bound of the height
  std::string packer;             ///< which order won
  friend bool operator==(const Layout&, const Layout&) = default;
};

}  // namespace tidemark
