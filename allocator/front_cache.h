#pragma once
// A shard: what one thread (or a few that hash alike) keeps at hand. Freed blocks by stream and exact rounded size,
// last in, first out; the large block freed last; the lock-free stack on which other shards return its blocks; and its
// share of the counters. Large blocks beyond that one are not kept: exact sizes reused in turn fragment the memory.
//
// Everything but push_remote() is under `lock`. Lock order: core lock, then shard locks by index, then the StreamOrder.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "allocator/block.h"
#include "allocator/spin_lock.h"
#include "allocator/statistics.h"

namespace tidemark {

/// Changes since they were last handed to the shared counters; peaks are relative to that moment.
struct Tally {
  Counter allocated_bytes;
  Counter requested_bytes;
  Counter allocation;
  std::int64_t front_hits = 0;
  std::int64_t remote_frees = 0;

  void add(const BlockHeader& block) {
    allocated_bytes.change(block.bytes);
    requested_bytes.change(block.requested_bytes);
    allocation.change(1);
  }
  void remove(const BlockHeader& block) {
    allocated_bytes.change(-block.bytes);
    requested_bytes.change(-block.requested_bytes);
    allocation.change(-1);
  }
};

/// Freed blocks of one stream by size class (rounded size in units).
class StreamLists {
 public:
  static constexpr std::size_t kClasses = 2049;

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
  /// All of it, as one list in front of `tail`.
  [[nodiscard]] BlockHeader* take_all(BlockHeader* tail);

 private:
  StreamHandle handle_;
  StreamSlot slot_;
  const std::atomic<Epoch>* epoch_;
  std::array<std::uint64_t, kClasses / 64 + 1> filled_{};
  std::array<BlockHeader*, kClasses> heads_{};
};

class alignas(128) Shard {
 public:
  SpinLock lock;
  Tally tally;

  /// The lists of a stream; made at its first mention. Handles are looked up anew when streams were destroyed.
  [[nodiscard]] StreamLists& lists_of(StreamHandle stream, StreamOrder& order);
  /// nullptr if this shard does not know the slot.
  [[nodiscard]] StreamLists* find_lists(StreamSlot slot);

  void keep(StreamLists& lists, std::size_t size_class, BlockHeader* block) {
    lists.push(size_class, block);
    cached_bytes_ += block->bytes;
  }
  [[nodiscard]] BlockHeader* reuse(StreamLists& lists, std::size_t size_class) {
    BlockHeader* block = lists.pop(size_class);
    if (block != nullptr) cached_bytes_ -= block->bytes;
    return block;
  }
  [[nodiscard]] Bytes cached_bytes() const { return cached_bytes_; }

  /// Keeps one freed block of any size; returns the one kept so far.
  [[nodiscard]] BlockHeader* hold(BlockHeader* block) { return std::exchange(held_, block); }
  [[nodiscard]] BlockHeader* reuse_held(StreamSlot stream, Bytes bytes) {
    if (held_ == nullptr || held_->bytes != bytes || held_->stream != stream) return nullptr;
    return std::exchange(held_, nullptr);
  }

  /// Lock-free, any thread.
  void push_remote(BlockHeader* block) {
    BlockHeader* head = remote_.load(std::memory_order_relaxed);
    do {
      block->next = head;
    } while (!remote_.compare_exchange_weak(head, block, std::memory_order_release, std::memory_order_relaxed));
  }
  [[nodiscard]] bool has_remote() const { return remote_.load(std::memory_order_relaxed) != nullptr; }
  /// Takes the returned blocks into the lists.
  void drain_remote(Bytes unit);
  /// Everything freed, as one list; the shard is empty afterwards.
  [[nodiscard]] BlockHeader* take_all();

 private:
  MetadataVector<std::unique_ptr<StreamLists>> lists_;
  StreamLists* last_ = nullptr;
  std::uint64_t generation_ = 0;
  Bytes cached_bytes_ = 0;
  BlockHeader* held_ = nullptr;      ///< the large block freed last
  BlockHeader* homeless_ = nullptr;  ///< of streams without lists here: those that may be destroyed
  alignas(128) std::atomic<BlockHeader*> remote_{nullptr};
};

}  // namespace tidemark
