#include "planner/layout/placer.h"

#include <algorithm>
#include <limits>

#include "planner/layout/effort.h"
#include "planner/layout/free_list.h"

namespace tidemark::layout {

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

bool Placer::place_all(std::span<const SortKey> order, const std::function<bool()>& should_stop, Bytes useless_bytes) {
  Effort effort(std::numeric_limits<std::int64_t>::max(), should_stop);
  Bytes height = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    if (effort.over() || height >= useless_bytes) {
      pile_above(order.subspan(k));
      return false;
    }
    const std::size_t block = order[k].row;
    place(block, lowest_fit(block));
    height = std::max(height, addresses_[block] + blocks_.hulls()[block].bytes);
    effort.spend(1);
  }
  return true;
}

void Placer::pile_above(std::span<const SortKey> left) {
  std::vector<char> stands(blocks_.size(), 1);
  for (const SortKey& key : left) stands[key.row] = blocks_.fixed(key.row) != kAnywhere ? 1 : 0;
  Bytes base = 0;
  std::vector<PackItem> pile(blocks_.size());
  std::vector<std::size_t> alone;  // what is kept apart by name, from others that the clock does not show
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    const PackItem& hull = blocks_.hulls()[block];
    if (stands[block] != 0) {
      base = std::max(base, addresses_[block] + hull.bytes);
    } else if (!blocks_.apart(block).empty()) {
      alone.push_back(block);
    } else {
      pile[block] = hull;
      if (!blocks_.plain()) pile[block].bytes += blocks_.alignment(block) - 1;  // room to round the address up
    }
  }
  const std::vector<Bytes> offsets = first_fit_by_birth(pile);
  Bytes top = base;
  for (std::size_t block = 0; block < pile.size(); ++block) {
    if (pile[block].bytes == 0) continue;
    addresses_[block] = round_up(base + offsets[block], blocks_.alignment(block));
    top = std::max(top, addresses_[block] + blocks_.hulls()[block].bytes);
  }
  for (const std::size_t block : alone) {
    addresses_[block] = round_up(top, blocks_.alignment(block));
    top = addresses_[block] + blocks_.hulls()[block].bytes;
  }
}

Packing place_in_order(const Blocks& blocks, std::span<const SortKey> order, const PackLimits& limits) {
  Placer placer(blocks);
  placer.place_all(order, limits.should_stop, limits.useless_bytes);
  return blocks.packing(placer.addresses());
}

std::vector<Bytes> first_fit_by_birth(std::span<const PackItem> items) {
  const auto ends = sorted_rows(items, [](const PackItem& item) { return SortKey{.first = item.end}; });
  std::vector<Bytes> offsets(items.size(), 0);
  FreeList free;
  auto ended = ends.begin();
  for (const SortKey& start : rows_by_birth(items)) {
    for (; ended->first <= start.first; ++ended) free.give_back(offsets[ended->row], items[ended->row].bytes);
    offsets[start.row] = free.take_lowest(items[start.row].bytes);
  }
  return offsets;
}

}  // namespace tidemark::layout
