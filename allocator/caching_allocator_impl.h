#pragma once
// The inside of CachingAllocator: shards, of which a thread needs one, and the slow path over all of them.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/pending_blocks.h"
#include "allocator/shard.h"
#include "device/fork_handlers.h"

namespace tidemark::allocator {

class KeptContents;

[[nodiscard]] inline BlockSums sums_of(const BlockHeader& block) {
  if (block.is_lent) return {};
  return {{block.bytes, block.requested_bytes, 1}};
}

struct CachingAllocator::Impl {
  using CoreLock = std::unique_lock<std::mutex>;
  enum class Kind : std::uint8_t { usual, plain, lent };
  static constexpr Bytes kLargestRequest = Bytes{1} << 47;
  static constexpr Bytes kAllAddresses = Bytes{1} << 45;  ///< of all shards; their windows take as many again
  static constexpr std::size_t kPlainShard = 0;           ///< of allocate_plain() where the others are mapped

  Impl(Device& device, StreamOrder& order, AllocatorOptions options);
  ~Impl();

  // Fast path (caching_allocator.cc).
  [[nodiscard]] DeviceCode allocate(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner, Kind kind);
  /// From the space of `home`, for the thread whose shard is `mine`.
  [[nodiscard]] BlockHeader* allocate_in(Shard& home, Shard& mine, const BlockRequest& request);
  /// Charges a block from the space of `home` to the credit of the thread's own shard, where its free is most likely
  /// counted, too. What is lacking is borrowed, from `home` first. False: settle() is due. Under both locks.
  [[nodiscard]] bool charge(Shard& mine, Shard& home, const BlockSums& block) {
    return mine.credit.grow(block) || borrow_credit(mine, home);
  }
  void count_part(const BlockSums& part);
  void discount_part(const BlockSums& part);
  [[nodiscard]] DeviceCode free(Address address, const StreamHandle* stream);
  void free_simple(BlockHeader* block, Shard& mine);
  [[nodiscard]] DeviceCode free_shared(Address address, const StreamSlot* named);
  void retire(BlockHeader* block, StreamSlot last);
  void trace_free(const BlockHeader& block, StreamSlot last);
  [[nodiscard]] DeviceCode note_use(Address address, StreamHandle stream);
  [[nodiscard]] Shard& my_shard();
  /// The block that starts there, or did; `mine` is where most are.
  [[nodiscard]] BlockHeader* find(Address address, const Shard& mine) const;
  [[nodiscard]] BlockHeader* find(Address address) const { return find(address, *shards[kPlainShard]); }
  [[nodiscard]] Bytes rounded(Bytes bytes) const;
  void trace(TraceAction action, Address address, Bytes bytes, StreamHandle stream, std::uint32_t owner);
  /// Makes an overdrawn shard good by what other shards have to spare, one at a time; those that are busy are passed
  /// over. False: it still lacks some. Under its lock and that of `home`, which comes first.
  [[nodiscard]] bool borrow_credit(Shard& overdrawn, Shard& home);
  /// Locks all shards, raises the peaks and deals the credit anew; due where charge() could not borrow enough. No lock
  /// held, or the core lock.
  void settle(Shard& overdrawn);
  /// Raises the peaks that the sums of live blocks exceed, and deals credit anew. Returns what room is left, which is
  /// no shard's. Under all shards' locks.
  BlockSums raise_peaks();
  /// Of live blocks; without the shards' locks what is under way may be in it or not.
  [[nodiscard]] BlockSums live_sums() const;
  [[nodiscard]] BlockSums live_sums(std::size_t count) const;  ///< of the first shards

  // Slow path, under the core lock (slow_path.cc).
  [[nodiscard]] DeviceCode allocate_slow(Shard& mine, const BlockRequest& request, BlockHeader*& block);
  [[nodiscard]] DeviceCode find_block(Shard& mine, const BlockRequest& request, CoreLock& lock, BlockHeader*& block);
  [[nodiscard]] BlockHeader* search(Shard& mine, const BlockRequest& request, bool others);
  [[nodiscard]] DeviceCode grow(Shard& home, Shard& mine, const BlockRequest& request, BlockHeader*& block);
  [[nodiscard]] DeviceCode grow_anywhere(Shard& mine, const BlockRequest& request, BlockHeader*& block);
  [[nodiscard]] bool may_grow(const BlockPool& pool, Bytes bytes);
  [[nodiscard]] Shard& fullest(Shard& mine);
  [[nodiscard]] GrowthBudget budget_for(const BlockPool& pool, Bytes bytes);
  [[nodiscard]] DeviceCode squeeze(Shard& mine, const BlockRequest& request, CoreLock& lock, BlockHeader*& block);
  [[nodiscard]] DeviceCode wait_for_device(CoreLock& lock);
  /// Asks for the deaths of all that is free. As PendingBlocks::poll(), which may release the lock.
  [[nodiscard]] bool poll(CoreLock& lock);
  void release_known(StreamSlot requester);
  void flush_all();
  /// Releases idle memory of pools other than `except` until at most `keep_bytes` are reserved in all.
  Bytes trim(Bytes keep_bytes, const BlockPool* except = nullptr);
  [[nodiscard]] DeviceCode refuse(const BlockRequest& request, DeviceCode code);
  [[nodiscard]] Bytes reserved_bytes() const;

  // Parts of lent blocks (lent_parts.cc).
  /// act(pool, offset of the block there, its stream) under the shard's lock, for a live lent block of one piece in a
  /// mapped pool; nothing: it is no such block. Under the core lock.
  template <class Act>
  auto on_lent(Address block, const Act& act)
      -> std::optional<std::invoke_result_t<Act, MappedPool&, Bytes, StreamSlot>>;
  [[nodiscard]] Bytes unmap_part(Address block, Bytes offset, Bytes bytes);
  [[nodiscard]] DeviceCode map_part(Address block, Bytes offset, Bytes bytes, Bytes& mapped);
  /// More of the part's granules behind its first `mapped` bytes, as many as the limit and the device allow; `ok`: all.
  [[nodiscard]] DeviceCode map_within_limit(Address block, Bytes offset, Bytes bytes, Bytes& mapped);
  /// Bytes of whole granules that hold nothing, or only blocks that were freed.
  [[nodiscard]] Bytes idle_bytes();

  // Without memory (suspend.cc).
  [[nodiscard]] DeviceCode suspend(Contents contents);
  [[nodiscard]] DeviceCode resume();
  [[nodiscard]] DeviceCode save_contents();
  void unmap_all();
  [[nodiscard]] DeviceCode map_again();
  [[nodiscard]] DeviceCode map_pools();
  template <class Do>
  void for_each_mapped(const Do& act);

  // Reports (out_of_memory.cc, snapshot.cc, statistics.cc).
  [[nodiscard]] OutOfMemory report();
  void report_locked(OutOfMemory& report);
  [[nodiscard]] std::string name_owner(std::uint32_t owner) const;
  [[nodiscard]] AllocatorStatistics statistics_locked();

  void lock_shards();
  void unlock_shards();
  [[nodiscard]] ForkSteps fork_steps();
  /// `act` may throw, but must call nothing that the caller of this library passed.
  template <class Do>
  void with_shards_locked(const Do& act);
  template <class Do>
  void with_everything_locked(const Do& act);
  /// act(shard) for every shard that was ever used, each locked in turn.
  template <class Do>
  void for_each_shard(const Do& act);

  Device& device;
  StreamOrder& order;
  const Status judged;             ///< of the options as they came
  const AllocatorOptions options;  ///< defaults where they were refused
  const Bytes unit;                ///< a power of two
  const Bytes tail_pad;

  History history;
  std::vector<std::unique_ptr<Shard>> shards;  ///< the plain one, then a power of two of them
  std::atomic<std::size_t> used_shards{1};     ///< the first so many were ever used
  std::size_t locked_shards = 0;               ///< by lock_shards()
  BlockSums peaks;                             ///< of live blocks; under all shards' locks
  std::atomic<Bytes> peak_bytes{0};            ///< of `peaks`, for those without the locks
  BlockSums active_peaks;                      ///< of live and parked ones
  BlockSums parked;                            ///< under the core lock and a shard's

  mutable std::mutex core;
  // Everything from here to the uses is under `core`.
  AllocatorStatistics counted;  ///< all but the sums over blocks, which the shards keep
  PendingBlocks pending;
  Bytes limit_bytes = 0;
  DeviceCode last_refusal = DeviceCode::ok;
  bool is_suspended = false;
  std::vector<std::unique_ptr<KeptContents>> kept;  ///< while suspended, if asked for; of one shard each

  std::mutex uses_mutex;
  std::unordered_map<const BlockHeader*, MetadataVector<StreamSlot>> uses;

  const ForkHandlers at_fork{ForkLevel::allocator, fork_steps()};
};

/// The range to reserve where the options leave it open.
[[nodiscard]] Bytes default_address_space(Bytes memory_bytes, Bytes granule_bytes);

/// Why an allocation is refused while suspended.
[[nodiscard]] const char* suspended_text();

/// Where last_error() looks.
std::string& last_error_text();

template <class Do>
void CachingAllocator::Impl::with_shards_locked(const Do& act) {
  lock_shards();
  const struct Unlock {
    ~Unlock() { impl.unlock_shards(); }
    Impl& impl;
  } unlock{*this};
  act();
}

template <class Do>
void CachingAllocator::Impl::with_everything_locked(const Do& act) {
  const std::lock_guard lock(core);
  with_shards_locked(act);
}

template <class Do>
void CachingAllocator::Impl::for_each_shard(const Do& act) {
  for (std::size_t i = 0; i < used_shards.load(std::memory_order_acquire); ++i) {
    const std::lock_guard lock(shards[i]->lock);
    act(*shards[i]);
  }
}

}  // namespace tidemark::allocator
