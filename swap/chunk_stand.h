#pragma once
// Where the storages of a section stand during one chunk (core/row_sections.h): parts in the room, scaled. Pure
// numbers.
//
// Threads: none. Cost: O(places) to begin a chunk, O(log) or O(places) a look-up.

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "swap/bound_program.h"
#include "swap/load_ladder.h"

namespace tidemark::swap {

class ChunkStand {
 public:
  ChunkStand(const BoundProgram& bound, const LoadLadder::Chunks& chunks);

  /// From now on the storages hold the rows of this chunk.
  void begin(std::int32_t chunk);

  struct Part {
    StorageId storage = kNone<StorageId>;
    Address address = 0;
    Bytes bytes = 0;         ///< scaled
    std::uint64_t mark = 0;  ///< tells chunks apart in what storages hold
  };
  /// nullptr: not in the room.
  [[nodiscard]] const Part* part_of(StorageId storage) const;
  /// Where a storage that is not in the room stands; `by_plan`: where the plan has the access.
  [[nodiscard]] ResidencyId standing(StorageId storage, ResidencyId by_plan) const;

 private:
  const BoundProgram& bound_;
  LoadLadder::Chunks chunks_;
  std::vector<Part> parts_;  ///< one a place
};

}  // namespace tidemark::swap
