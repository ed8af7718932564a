#include "planner/layout/placer.h"

#include <algorithm>

namespace tidemark {

Placer::Placer(const Blocks& blocks) : blocks_(blocks), tree_(blocks.parts()), addresses_(blocks.size(), 0) {
  if (blocks.plain()) return;
  placed_.assign(blocks.size(), 0);
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    if (blocks.fixed(block) != kAnywhere) place(block, blocks.fixed(block));
  }
}

Bytes Placer::lowest_fit(std::size_t block) {
  if (blocks_.plain()) return tree_.lowest_fit(blocks_.parts(block).front(), 0);
  if (blocks_.fixed(block) != kAnywhere) return blocks_.fixed(block);
  // Every part pushes the block up past what it has in the way; done when a full round pushes nothing.
  Bytes address = 0;
  for (bool moved = true; moved;) {
    const Bytes before = address;
    for (const BlockPart& part : blocks_.parts(block))
      address = std::max(address, tree_.lowest_fit(part, address + part.shift) - part.shift);
    address = round_up(push_apart(block, address), blocks_.alignment(block));
    moved = address != before;
  }
  return address;
}

Bytes Placer::push_apart(std::size_t block, Bytes address) const {
  const Bytes bytes = blocks_.hulls()[block].bytes;
  for (bool moved = true; moved;) {
    moved = false;
    for (const std::uint32_t other : blocks_.apart(block)) {
      if (placed_[other] == 0) continue;
      const Bytes end = addresses_[other] + blocks_.hulls()[other].bytes;
      if (end <= address || addresses_[other] >= address + bytes) continue;
      address = end;
      moved = true;
    }
  }
  return address;
}

void Placer::place(std::size_t block, Bytes address) {
  if (!blocks_.plain()) {
    if (placed_[block] != 0) return;  // fixed
    placed_[block] = 1;
  }
  addresses_[block] = address;
  for (const BlockPart& part : blocks_.parts(block)) tree_.place(part, address + part.shift);
}

Packing place_in_order(const Blocks& blocks, std::span<const SortKey> order) {
  Placer placer(blocks);
  for (const SortKey& key : order) placer.place(key.row, placer.lowest_fit(key.row));
  return blocks.packing(placer.addresses());
}

}  // namespace tidemark
