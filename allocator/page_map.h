#pragma once
// From an address to the header of the block that started there last: a radix tree of three levels over 48-bit
// addresses, 512 B a slot, 2 MiB a leaf. Reading takes three dependent loads and no lock; leaves appear with their
// first block and stay. A leaf's host pages are touched only where blocks start, so a granule that holds one block
// costs 4 KiB. Entries are never cleared: whether the block still lives, its header says (block.h).
//
// Threads: any; of one address, set() one at a time (the lock of the space that it lies in).

#include <array>
#include <atomic>
#include <cstddef>

#include "allocator/block.h"

namespace tidemark {

class PageMap {
 public:
  static constexpr unsigned kSlotBits = 9;  ///< blocks start at least 512 B apart

  PageMap() = default;
  ~PageMap();
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  /// nullptr: no block ever started there.
  [[nodiscard]] BlockHeader* find(Address address) const {
    if (address >> kAddressBits != 0 || address % (Address{1} << kSlotBits) != 0) return nullptr;
    const Middle* middle = root_[address >> kMiddleShift].load(std::memory_order_acquire);
    if (middle == nullptr) return nullptr;
    const Leaf* leaf = (*middle)[(address >> kLeafShift) & (kMiddleSize - 1)].load(std::memory_order_acquire);
    if (leaf == nullptr) return nullptr;
    return (*leaf)[(address >> kSlotBits) & (kLeafSize - 1)].load(std::memory_order_acquire);
  }
  /// Throws std::bad_alloc, nothing changed. REQUIRES: address below 2^48.
  void set(Address address, BlockHeader* block);

 private:
  static constexpr unsigned kAddressBits = 48;
  static constexpr unsigned kLeafShift = 21;
  static constexpr unsigned kMiddleShift = 34;
  static constexpr std::size_t kLeafSize = std::size_t{1} << (kLeafShift - kSlotBits);
  static constexpr std::size_t kMiddleSize = std::size_t{1} << (kMiddleShift - kLeafShift);
  static constexpr std::size_t kRootSize = std::size_t{1} << (kAddressBits - kMiddleShift);
  using Leaf = std::array<std::atomic<BlockHeader*>, kLeafSize>;
  using Middle = std::array<std::atomic<Leaf*>, kMiddleSize>;

  std::array<std::atomic<Middle*>, kRootSize> root_{};
};

}  // namespace tidemark
