#include "swap/chunk_stand.h"

#include <algorithm>

namespace tidemark::swap {
namespace {

/// Far above the versions of a step.
constexpr int kMarkShift = 48;

}  // namespace

ChunkStand::ChunkStand(const BoundProgram& bound, const LoadLadder::Chunks& chunks) : bound_(bound), chunks_(chunks) {
  const std::vector<Bytes> offsets = room_offsets(*bound.program, *chunks.section, chunks.load, chunks.fewest);
  for (std::size_t i = 0; i < offsets.size(); ++i)
    parts_.push_back({.storage = chunks.section->places[i].storage,
                      .address = chunks.room + static_cast<Address>(offsets[i] / bound.scale)});
  begin(0);
}

void ChunkStand::begin(std::int32_t chunk) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const ChunkPlace& place = chunks_.section->places[i];
    parts_[i].bytes = bound_.scaled(chunk_bytes(*bound_.program, place, chunks_.load, chunks_.count, chunk));
    parts_[i].mark = place.routed >= 0 ? static_cast<std::uint64_t>(chunk + 1) << kMarkShift : 0;
  }
}

const ChunkStand::Part* ChunkStand::part_of(StorageId storage) const {
  const auto found = std::ranges::find(parts_, storage, &Part::storage);
  return found == parts_.end() ? nullptr : &*found;
}

ResidencyId ChunkStand::standing(StorageId storage, ResidencyId by_plan) const {
  const std::vector<StandingPlace>& all = chunks_.section->standing;
  const auto found = std::ranges::lower_bound(all, storage, {}, &StandingPlace::storage);
  return found != all.end() && found->storage == storage ? found->residency : by_plan;
}

}  // namespace tidemark::swap
