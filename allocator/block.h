#pragma once
// The header of one block of device memory, on the host. Headers are never freed while their table lives, so that a
// stale address leads to a header, not to garbage.
//
// Address and state share one atomic word: a block changes hands only if it is still the block that was looked up. A
// second release of an address is therefore refused, also where another thread has meanwhile made a block of the same
// header elsewhere. (Where the address itself was handed out again, the release is of the new block.)

#include <atomic>
#include <cstdint>

#include "allocator/metadata_memory.h"
#include "allocator/offset_allocator.h"
#include "allocator/stream_order.h"

namespace tidemark::allocator {

enum class BlockState : std::uint8_t {
  unused,  ///< the header itself is free
  live,    ///< in the caller's hands
  freed,   ///< in a shard's lists, on its return stack, or on its way back
  parked,  ///< waits until more than one death is over
};

/// One cache line. Fields change hands with the block: the allocating thread, then the one that frees it, then the lock
/// that it comes under.
class alignas(64) BlockHeader {
 public:
  static constexpr Address kStateBits = 3;  ///< blocks start at multiples of 512

  [[nodiscard]] Address address() const { return word_.load(std::memory_order_relaxed) & ~kStateBits; }
  [[nodiscard]] BlockState state() const {
    return static_cast<BlockState>(word_.load(std::memory_order_acquire) & kStateBits);
  }
  [[nodiscard]] bool is_live_at(Address address) const {
    return word_.load(std::memory_order_acquire) == word(address, BlockState::live);
  }
  /// From live at that address to freed, in one step; false, and nothing changed, if it is not.
  [[nodiscard]] bool claim(Address address) {
    Address expected = word(address, BlockState::live);
    return word_.compare_exchange_strong(expected, word(address, BlockState::freed), std::memory_order_acq_rel);
  }
  void become(Address address, BlockState state) { word_.store(word(address, state), std::memory_order_release); }
  void become(BlockState state) { become(address(), state); }

  Bytes bytes = 0;
  Bytes requested_bytes = 0;
  Epoch death = 0;              ///< of a freed block, on `stream`
  BlockHeader* next = nullptr;  ///< in a list of freed blocks or spare headers
  RangeId range = kNoRange;
  StreamSlot stream = {};
  std::uint32_t owner = 0;
  std::uint16_t shard = 0;  ///< whose space it lies in
  bool is_lent = false;     ///< counts by what its holder hands out of it
  std::atomic<bool> has_uses{false};

 private:
  static constexpr Address word(Address address, BlockState state) { return address | static_cast<Address>(state); }

  std::atomic<Address> word_{0};
};
static_assert(sizeof(BlockHeader) == 64);

/// Owner of the headers of one shard's blocks. Threads: none; the shard's lock.
class BlockTable {
 public:
  BlockHeader* take() {
    if (spare_ == nullptr) return &blocks_.emplace_back();
    BlockHeader* block = spare_;
    spare_ = block->next;
    block->next = nullptr;
    return block;
  }
  void put(BlockHeader* block) {
    block->become(0, BlockState::unused);
    block->next = spare_;
    spare_ = block;
  }

 private:
  MetadataDeque<BlockHeader> blocks_;
  BlockHeader* spare_ = nullptr;
};

}  // namespace tidemark::allocator
