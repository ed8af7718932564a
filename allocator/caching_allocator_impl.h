#pragma once
// The inside of CachingAllocator: the fast path over shards, the slow path over pools, and what they share.

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "allocator/block_pool.h"
#include "allocator/caching_allocator.h"
#include "allocator/front_cache.h"
#include "allocator/page_map.h"
#include "allocator/pending_blocks.h"

namespace tidemark {

struct CachingAllocator::Impl {
  using Search = OffsetAllocator::Search;
  using CoreLock = std::unique_lock<std::mutex>;
  static constexpr std::uint8_t kMain = 0;   ///< mapped where the device maps
  static constexpr std::uint8_t kPlain = 1;  ///< the same pool as kMain where it does not
  static constexpr Bytes kLargestRequest = Bytes{1} << 47;
  static constexpr Bytes kTallyQuantum = 16 * kMiB;  ///< a shard's unpublished change by small blocks stays below it
  static constexpr Bytes kFrontShare = 512;          ///< a shard keeps at most this part of what is reserved ...
  static constexpr Bytes kFrontLeast = kMiB;         ///< ... but this much in any case, if the options let it

  struct Request {
    Bytes bytes;    ///< as asked
    Bytes rounded;  ///< as taken
    StreamHandle stream;
    std::uint32_t owner;
    std::uint8_t pool;
  };

  Impl(Device& device, StreamOrder& order, AllocatorOptions options);
  ~Impl();

  // Fast path (caching_allocator.cc).
  [[nodiscard]] DeviceCode allocate(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner,
                                    std::uint8_t pool);
  [[nodiscard]] BlockHeader* allocate_front(const Request& request);
  [[nodiscard]] DeviceCode free(Address address, const StreamHandle* stream);
  void free_home(BlockHeader* block, Shard& mine);
  void free_held(BlockHeader* block, Shard& mine);
  void free_shared(BlockHeader* block, StreamSlot stream, Shard& mine);
  void trace_free(const BlockHeader& block, StreamSlot last);
  [[nodiscard]] DeviceCode note_use(Address address, StreamHandle stream);
  [[nodiscard]] Shard& my_shard();
  [[nodiscard]] bool is_front_size(Bytes rounded) const { return rounded <= kFrontBytes; }
  [[nodiscard]] std::size_t size_class(Bytes rounded) const { return static_cast<std::size_t>(rounded / unit); }
  void trace(TraceAction action, Address address, Bytes bytes, StreamHandle stream, std::uint32_t owner);

  // Slow path, under the core lock (slow_path.cc).
  /// Room for the books of everything that may be freed on a stream: whatever goes back to it after this cannot fail.
  /// Every block in a shard or parked has had it for its stream.
  void prepare(StreamSlot stream);
  [[nodiscard]] DeviceCode allocate_slow(const Request& request, BlockHeader*& block);
  [[nodiscard]] DeviceCode find_block(const Request& request, StreamSlot stream, CoreLock& lock,
                                      std::optional<RangeInfo>& range);
  [[nodiscard]] DeviceCode grow(const Request& request, StreamSlot stream, std::optional<RangeInfo>& range);
  [[nodiscard]] DeviceCode squeeze(const Request& request, StreamSlot stream, CoreLock& lock,
                                   std::optional<RangeInfo>& range);
  [[nodiscard]] DeviceCode wait_for_device(CoreLock& lock);
  [[nodiscard]] bool search(const Request& request, StreamSlot stream, Search how, std::optional<RangeInfo>& range);
  [[nodiscard]] BlockHeader* make_block(const Request& request, StreamSlot stream, const RangeInfo& range);
  void release(BlockHeader* block, StreamSlot stream, Epoch stamp);
  void release_known(StreamSlot requester);
  [[nodiscard]] bool flush(Shard& shard);
  [[nodiscard]] bool flush_all();
  void publish(Shard& shard);
  /// Makes known what large blocks have changed in any shard, and takes back the one this shard holds.
  void settle(Shard& mine);
  [[nodiscard]] std::uint64_t bit_of(const Shard& shard) const {
    return std::uint64_t{1} << static_cast<std::size_t>(&shard - shards.get()) % 64;
  }
  void absorb(Tally& tally);
  [[nodiscard]] Bytes limit_of(const BlockPool& pool) const;
  [[nodiscard]] BlockPool& pool_of(std::uint8_t pool) const { return *pools[pool]; }

  // Reports (out_of_memory.cc, snapshot.cc).
  [[nodiscard]] OutOfMemory report();
  void report_locked(OutOfMemory& report);
  [[nodiscard]] std::string name_owner(std::uint32_t owner) const;
  [[nodiscard]] AllocatorStatistics statistics_locked();
  /// `act` may throw, but must call nothing that the caller of this library passed.
  template <class Do>
  void with_everything_locked(const Do& act);

  Device& device;
  StreamOrder& order;
  const Status judged;             ///< of the options as they came
  const AllocatorOptions options;  ///< defaults where they were refused
  const Bytes unit;
  const Bytes tail_pad;

  PageMap map;
  History history;
  std::unique_ptr<Shard[]> shards;
  std::size_t shard_count;
  std::atomic<std::uint64_t> unpublished{0};  ///< shards (by index modulo 64) with large changes of their own
  std::atomic<Bytes> front_limit{0};          ///< what a shard may keep

  mutable std::mutex core;
  // Everything from here to the uses is under `core`.
  AllocatorStatistics counted;
  BlockTable table;
  PendingBlocks pending;
  std::unique_ptr<BlockPool> owned[2];
  BlockPool* pools[2] = {nullptr, nullptr};
  MappedPool* mapped = nullptr;  ///< the main pool, if it is mapped
  Bytes limit_bytes = 0;
  DeviceCode last_refusal = DeviceCode::ok;
  bool used = false;  ///< a block was handed out

  std::mutex uses_mutex;
  std::unordered_map<const BlockHeader*, MetadataVector<StreamSlot>> uses;
};

/// The range to reserve where the options leave it open.
[[nodiscard]] Bytes default_address_space(Bytes memory_bytes, Bytes granule_bytes);

/// Where last_error() looks.
std::string& last_error_text();

template <class Do>
void CachingAllocator::Impl::with_everything_locked(const Do& act) {
  const std::lock_guard lock(core);
  const struct AllShards {
    explicit AllShards(const Impl& of) : impl(of) {
      for (std::size_t i = 0; i < impl.shard_count; ++i) impl.shards[i].lock.lock();
    }
    ~AllShards() {
      for (std::size_t i = impl.shard_count; i-- > 0;) impl.shards[i].lock.unlock();
    }
    const Impl& impl;
  } locked(*this);
  for (std::size_t i = 0; i < shard_count; ++i) absorb(shards[i].tally);
  act();
}

}  // namespace tidemark
