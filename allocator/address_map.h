#pragma once
// From an address to the header of the block of one shard that starts there: open addressing with linear probes.
// Reading takes no lock: two dependent loads, mostly one cache line, however far apart the blocks lie (a radix tree
// touches a page of the host for every block). One map a shard, so that threads do not write each other's lines.
//
// Readers never miss a block that was set before their call: a slot between an address's first slot and its own is
// never empty while it is in. An erased slot becomes empty only where the next one is, else it is a tombstone, which
// the next address takes over. A table that is half full is copied into one of twice the size and kept until the end,
// for readers that are still in it: all old ones together are smaller than the last. What a reader finds may be stale;
// whether the block is still that one, its header says (block.h).
//
// Cost: 16 B a slot; with old tables up to 210 B a block at the fullest it ever was (measured under churn). Threads:
// find() any; the others under the shard's lock.

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "allocator/block.h"

namespace tidemark::allocator {

class AddressMap {
 public:
  static constexpr int kUnitBits = 9;  ///< blocks start at multiples of 512

  /// nullptr: no block starts there.
  [[nodiscard]] BlockHeader* find(Address address) const {
    const Table* table = table_.load(std::memory_order_acquire);
    if (table == nullptr || address <= kTombstone) return nullptr;
    for (std::size_t i = hash_of(address) & table->mask;; i = (i + 1) & table->mask) {
      const Address found = table->slots[i].address.load(std::memory_order_acquire);
      if (found == address) return table->slots[i].block.load(std::memory_order_acquire);
      if (found == kEmpty) return nullptr;
    }
  }
  /// Throws std::bad_alloc, nothing changed. REQUIRES: the address is not in it, and a multiple of 512 above 0.
  void set(Address address, BlockHeader* block);
  /// Cannot fail. REQUIRES: it is in it.
  void erase(Address address);

 private:
  static constexpr Address kEmpty = 0;
  static constexpr Address kTombstone = 1;
  static constexpr std::size_t kFirstSlots = 64;

  struct Slot {
    std::atomic<Address> address{kEmpty};
    std::atomic<BlockHeader*> block{nullptr};
  };
  struct Table {
    explicit Table(std::size_t count) : mask(count - 1), slots(count) {}
    std::size_t mask;
    MetadataVector<Slot> slots;
  };

  static std::size_t hash_of(Address address) {
    return static_cast<std::size_t>((address >> kUnitBits) * 0x9E37'79B9'7F4A'7C15ULL >> 32);
  }
  void grow();
  static void insert(Table& table, Address address, BlockHeader* block, std::size_t& taken);

  std::atomic<Table*> table_{nullptr};
  std::size_t taken_ = 0;                       ///< slots that are not empty
  std::vector<std::unique_ptr<Table>> tables_;  ///< the last is in use
};

}  // namespace tidemark::allocator
