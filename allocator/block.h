#pragma once
// The header of one block of device memory, on the host. Headers are never freed while their table lives, so that a
// stale pointer reads a header, not garbage.

#include <atomic>
#include <cstdint>

#include "allocator/metadata_memory.h"
#include "allocator/offset_allocator.h"
#include "allocator/stream_order.h"

namespace tidemark {

enum class BlockState : std::uint8_t {
  unused,  ///< the header itself is free
  live,    ///< in the caller's hands
  freed,   ///< in a front cache, on a remote stack, or on its way back
  parked,  ///< waits until more than one death is over
};

/// One cache line. Fields change hands with the block: the allocating thread, then whoever frees it, then the lock that
/// it comes under.
struct alignas(64) BlockHeader {
  Address address = 0;
  Bytes bytes = 0;
  Bytes requested_bytes = 0;
  Epoch death = 0;              ///< of a freed block, on `stream`
  BlockHeader* next = nullptr;  ///< in a list of freed blocks or spare headers
  RangeId range = kNoRange;
  StreamSlot stream = {};
  std::uint32_t owner = 0;
  std::uint16_t shard = 0;
  std::uint8_t pool = 0;
  std::atomic<BlockState> state{BlockState::unused};
  std::atomic<bool> has_uses{false};
};
static_assert(sizeof(BlockHeader) == 64);

/// Owner of all headers. Threads: none; the core lock.
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
    block->state.store(BlockState::unused, std::memory_order_relaxed);
    block->next = spare_;
    spare_ = block;
  }

 private:
  MetadataDeque<BlockHeader> blocks_;
  BlockHeader* spare_ = nullptr;
};

}  // namespace tidemark
