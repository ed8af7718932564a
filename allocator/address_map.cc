#include "allocator/address_map.h"

#include <cassert>

namespace tidemark::allocator {

void AddressMap::set(Address address, BlockHeader* block) {
  assert(address > kTombstone && address % (Address{1} << kUnitBits) == 0);
  if (tables_.empty() || 2 * (taken_ + 1) > tables_.back()->slots.size()) grow();
  insert(*tables_.back(), address, block, taken_);
}

/// Into the first slot that is empty or a tombstone. The block first: a reader that sees the address sees it, too.
void AddressMap::insert(Table& table, Address address, BlockHeader* block, std::size_t& taken) {
  std::size_t i = hash_of(address) & table.mask;
  while (table.slots[i].address.load(std::memory_order_relaxed) > kTombstone) i = (i + 1) & table.mask;
  if (table.slots[i].address.load(std::memory_order_relaxed) == kEmpty) ++taken;
  table.slots[i].block.store(block, std::memory_order_relaxed);
  table.slots[i].address.store(address, std::memory_order_release);
}

/// Twice the slots, without the tombstones.
void AddressMap::grow() {
  tables_.reserve(tables_.size() + 1);
  auto table = std::make_unique<Table>(tables_.empty() ? kFirstSlots : 2 * tables_.back()->slots.size());
  std::size_t taken = 0;
  if (!tables_.empty()) {
    for (const Slot& slot : tables_.back()->slots) {
      const Address address = slot.address.load(std::memory_order_relaxed);
      if (address > kTombstone) insert(*table, address, slot.block.load(std::memory_order_relaxed), taken);
    }
  }
  taken_ = taken;
  table_.store(table.get(), std::memory_order_release);
  tables_.push_back(std::move(table));
}

void AddressMap::erase(Address address) {
  Table& table = *tables_.back();
  std::size_t i = hash_of(address) & table.mask;
  while (table.slots[i].address.load(std::memory_order_relaxed) != address) i = (i + 1) & table.mask;
  table.slots[i].address.store(kTombstone, std::memory_order_release);
  if (table.slots[(i + 1) & table.mask].address.load(std::memory_order_relaxed) != kEmpty) return;
  for (; table.slots[i].address.load(std::memory_order_relaxed) == kTombstone; i = (i - 1) & table.mask) {
    table.slots[i].address.store(kEmpty, std::memory_order_release);
    --taken_;
  }
}

}  // namespace tidemark::allocator
