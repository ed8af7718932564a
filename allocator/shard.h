#pragma once
// A shard: the part of an allocator that one thread (or a few that share its number) works on under one lock. It owns a
// space with memory behind it (BlockPool), and keeps freed blocks at hand: small ones by stream and exact rounded size,
// last in, first out, and the large one freed last. More large ones are not kept: exact sizes reused in turn fragment
// the memory.
//
// A block always returns to the shard whose space it lies in: directly where that shard's thread frees it, else over a
// lock-free stack, which the shard empties at its next allocation. So a free by another thread is one push. (A block
// with uses on other streams is released under the core lock and the shard's.)
//
// Threads: everything but push_remote() is under `lock`. Lock order: core lock, then shards by index, then the
// StreamOrder.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "allocator/address_map.h"
#include "allocator/block.h"
#include "allocator/block_pool.h"
#include "allocator/peak_credit.h"
#include "allocator/spin_lock.h"

namespace tidemark::allocator {

struct BlockRequest {
  Bytes bytes = 0;    ///< as asked
  Bytes rounded = 0;  ///< as taken
  StreamHandle stream = {};
  std::uint32_t owner = 0;
  bool is_lent = false;  ///< see CachingAllocator::allocate_lent()
};

/// Freed blocks of one stream by size class (rounded size in units).
class StreamLists {
 public:
  static constexpr Bytes kMostBytes = 64 * kKiB;  ///< larger blocks are not kept by size
  static constexpr std::size_t kClasses = static_cast<std::size_t>(kMostBytes >> AddressMap::kUnitBits) + 1;

  StreamLists(StreamHandle handle, StreamSlot slot, const std::atomic<Epoch>& epoch)
      : handle_(handle), slot_(slot), epoch_(&epoch) {}

  [[nodiscard]] StreamHandle handle() const { return handle_; }
  [[nodiscard]] StreamSlot slot() const { return slot_; }
  [[nodiscard]] Epoch death_epoch() const { return epoch_->load(std::memory_order_acquire) + 1; }

  [[nodiscard]] BlockHeader* pop(std::size_t size_class) {
    BlockHeader* block = heads_[size_class];
    if (block == nullptr) return nullptr;
    heads_[size_class] = block->next;
    if (block->next == nullptr) filled_[size_class / 64] &= ~(1ULL << (size_class % 64));
    return block;
  }
  void push(std::size_t size_class, BlockHeader* block) {
    block->next = heads_[size_class];
    heads_[size_class] = block;
    filled_[size_class / 64] |= 1ULL << (size_class % 64);
  }
  /// All of it, as one list.
  [[nodiscard]] BlockHeader* take_all();

 private:
  StreamHandle handle_;
  StreamSlot slot_;
  const std::atomic<Epoch>* epoch_;
  std::array<std::uint64_t, kClasses / 64 + 1> filled_{};
  std::array<BlockHeader*, kClasses> heads_{};
};

class alignas(128) Shard {
 public:
  /// What all shards of an allocator have in common.
  struct Shared {
    StreamOrder& order;
    int unit_shift;     ///< the unit's logarithm
    Bytes front_bytes;  ///< what a shard may keep in its lists
  };

  Shard(const Shared& shared, std::uint16_t index, std::unique_ptr<BlockPool> pool)
      : shared_(shared), index_(index), pool_(std::move(pool)) {}

  SpinLock lock;
  PeakCredit credit;              ///< of what this shard's thread allocates and frees, in whichever space
  std::int64_t remote_frees = 0;  ///< by this shard's thread, of other shards' blocks
  /// Where this shard's thread last found room when its own space had none.
  std::atomic<std::uint16_t> lender{0};

  /// A block of the lists, or one cut from the space without asking the device. nullptr: there is none.
  [[nodiscard]] BlockHeader* allocate(const BlockRequest& request);
  /// The same after flush(), and with every free range looked at.
  [[nodiscard]] BlockHeader* search(const BlockRequest& request, StreamSlot stream);
  /// A live block over a range just taken from the pool. Throws std::bad_alloc; the range is free again then.
  [[nodiscard]] BlockHeader* make_block(const BlockRequest& request, StreamSlot stream, const RangeInfo& range);

  /// Takes a freed block of this space for the next allocation. Cannot fail.
  void keep(BlockHeader* block);
  /// The same from another shard's thread; block->death is set. Lock-free, any thread.
  void push_remote(BlockHeader* block) {
    BlockHeader* head = remote_.load(std::memory_order_relaxed);
    do {
      block->next = head;
    } while (!remote_.compare_exchange_weak(head, block, std::memory_order_release, std::memory_order_relaxed));
  }
  /// A block returns to the space, free for `stream` at once and for others after `stamp`. Cannot fail.
  /// REQUIRES: the pool is prepared for the stream, as it is for every stream that got a block here.
  void release(BlockHeader* block, StreamSlot stream, Epoch stamp);
  /// Everything in the lists and on the stack returns to the space.
  void flush();

  [[nodiscard]] std::uint16_t index() const { return index_; }
  [[nodiscard]] BlockPool& pool() const { return *pool_; }
  [[nodiscard]] std::int64_t front_hits() const { return front_hits_; }
  /// The block that starts there, or did; nullptr: none. Any thread, no lock.
  [[nodiscard]] BlockHeader* find(Address address) const { return map_.find(address); }
  /// Whether the address is in a range that this shard's pool reserved. Never for plain pools. Any thread, no lock.
  [[nodiscard]] bool covers(Address address) const {
    for (const Reserved& range : reserved_) {
      const Address bytes = range.bytes.load(std::memory_order_acquire);  // first: the base was stored before it
      if (address - range.base.load(std::memory_order_relaxed) < bytes) return true;
    }
    return false;
  }
  /// The block in a used range. Of a stitched block every piece leads to it.
  [[nodiscard]] BlockHeader* holder(const RangeInfo& used) const { return find(pool_->start_of(used)); }

 private:
  struct Reserved {
    std::atomic<Address> base{0};
    std::atomic<Address> bytes{0};
  };

  void note_reserved(Address address);
  [[nodiscard]] StreamLists& lists_of(StreamHandle stream);
  [[nodiscard]] StreamLists* find_lists(StreamSlot slot);
  [[nodiscard]] BlockHeader* reuse(StreamLists& lists, const BlockRequest& request);
  void keep_small(StreamLists& lists, BlockHeader* block);
  void drain_remote();
  void release_held();
  void release_list(BlockHeader* block);
  [[nodiscard]] std::size_t size_class(Bytes rounded) const {
    return static_cast<std::size_t>(rounded >> shared_.unit_shift);
  }

  Shared shared_;
  std::uint16_t index_;
  std::unique_ptr<BlockPool> pool_;
  BlockTable table_;
  AddressMap map_;
  MetadataVector<std::unique_ptr<StreamLists>> lists_;
  StreamLists* last_ = nullptr;
  std::uint64_t generation_ = 0;
  Bytes kept_bytes_ = 0;         ///< in the lists
  BlockHeader* held_ = nullptr;  ///< the large block freed last
  std::int64_t front_hits_ = 0;
  alignas(128) std::atomic<BlockHeader*> remote_{nullptr};
  alignas(128) std::array<Reserved, 2> reserved_;  ///< the pool's range, that of its windows
};

/// The locks of two shards, which may be one.
class TwoShardsLock {
 public:
  TwoShardsLock(Shard& one, Shard& other)
      : first_(one.index() <= other.index() ? one.lock : other.lock),
        second_(one.index() < other.index() ? other.lock : one.lock) {
    first_.lock();
    if (&second_ != &first_) second_.lock();
  }
  ~TwoShardsLock() {
    if (&second_ != &first_) second_.unlock();
    first_.unlock();
  }
  TwoShardsLock(const TwoShardsLock&) = delete;
  TwoShardsLock& operator=(const TwoShardsLock&) = delete;

 private:
  SpinLock& first_;
  SpinLock& second_;
};

}  // namespace tidemark::allocator
