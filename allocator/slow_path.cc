// What CachingAllocator does when a shard has no block at hand.

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "allocator/caching_allocator_impl.h"

namespace tidemark::allocator {
namespace {

// Beyond the live peak, of which share more is mapped before idle granules are moved. A step that repeats itself moves
// granules while it is learnt and then no more; a workload that goes on moving them gets room instead, for a device
// takes as long over one move as over thousands of allocations.
constexpr Bytes kSlackShare = 256;
constexpr Bytes kRestlessSlackShare = 8;
constexpr Bytes kLeastSlackShare = 2;
constexpr std::int64_t kMostExcess = 4;
constexpr std::int64_t kFreeMoves = 1024;
constexpr std::int64_t kAllocationsPerMove = 1024;
/// Of what is reserved, which part must be free for one shard to look for it in another.
constexpr Bytes kFreeShareToBorrow = 8;

}  // namespace

Bytes CachingAllocator::Impl::reserved_bytes() const {
  return counted.reserved_bytes.current;
}

void CachingAllocator::Impl::flush_all() {
  for_each_shard([](Shard& shard) { shard.flush(); });
}

void CachingAllocator::Impl::release_known(StreamSlot requester) {
  if (!pending.news()) return;
  for_each_shard([&](Shard& shard) { shard.pool().prepare(requester); });
  pending.release_known(requester, [this](BlockHeader* block, StreamSlot stream, Epoch stamp) {
    trace(TraceAction::free_completed, block->address(), block->bytes, order.handle_of(stream), block->owner);
    Shard& home = *shards[block->shard];
    const std::lock_guard lock(home.lock);
    parked -= sums_of(*block);
    home.release(block, stream, stamp);
  });
}

bool CachingAllocator::Impl::poll(CoreLock& lock) {
  const auto streams = static_cast<FreeDomain>(order.stream_count());
  for_each_shard([&](Shard& shard) {
    for (FreeDomain stream = 0; stream < streams; ++stream) {
      const Epoch latest = shard.pool().space().latest_stamp(stream);
      if (latest > 0) pending.note_death({.stream = static_cast<StreamSlot>(stream), .epoch = latest});
    }
  });
  return pending.poll(lock);
}

Bytes CachingAllocator::Impl::trim(Bytes keep_bytes, const BlockPool* except) {
  Bytes gone = 0;
  for_each_shard([&](Shard& shard) {
    const Bytes excess = reserved_bytes() - keep_bytes;
    BlockPool& pool = shard.pool();
    if (excess > 0 && &pool != except) gone += pool.trim(std::max<Bytes>(pool.reserved_bytes() - excess, 0));
  });
  return gone;
}

DeviceCode CachingAllocator::Impl::allocate_slow(Shard& mine, const BlockRequest& request, BlockHeader*& block) {
  if (!judged) {
    last_error_text() = judged.error().message;
    return DeviceCode::invalid;
  }
  CoreLock lock(core);
  const DeviceCode code = find_block(mine, request, lock, block);
  const bool was_suspended = is_suspended;
  if (code == DeviceCode::out_of_memory) ++counted.num_ooms;
  if (code == DeviceCode::ok) return code;
  lock.unlock();
  if (was_suspended) {
    last_error_text() = suspended_text();
    return code;
  }
  return refuse(request, code);
}

DeviceCode CachingAllocator::Impl::refuse(const BlockRequest& request, DeviceCode code) {
  if (code != DeviceCode::out_of_memory) {
    last_error_text() = fmt::format("{}: {}", name_of(code), device.last_error());
    return code;
  }
  OutOfMemory report = this->report();
  report.requested_bytes = request.bytes;
  report.stream = request.stream;
  if (report.reserved_bytes + request.rounded > report.limit_bytes) report.device_code = DeviceCode::ok;
  last_error_text() = report.text();
  if (history.on()) {
    history.add({.action = TraceAction::oom,
                 .size = request.bytes,
                 .device_free = report.device_free_bytes,
                 .stream = request.stream,
                 .time_ns = device.now_ns(),
                 .owner = request.owner});
  }
  try {
    if (options.on_out_of_memory) options.on_out_of_memory(report);
  } catch (...) {  // the answer is a code
  }
  return code;
}

/// Free memory of the thread's own shard, or else of any other. What the others keep goes back to their spaces, also
/// where it may not serve: plain and mapped memory do not stand in for each other, but idle memory can be given up for
/// either.
BlockHeader* CachingAllocator::Impl::search(Shard& mine, const BlockRequest& request, bool others) {
  if (is_suspended) return nullptr;
  const StreamSlot stream = order.slot_of(request.stream);
  release_known(stream);
  BlockHeader* block = nullptr;
  bool within = true;
  const auto look = [&](Shard& shard) {
    const TwoShardsLock lock(shard, mine);
    if (&shard != &mine && (shard.index() == kPlainShard || mine.index() == kPlainShard)) return shard.flush();
    block = shard.search(request, stream);
    if (block != nullptr) within = charge(mine, shard, sums_of(*block));
  };
  look(mine);
  const std::size_t used = others ? used_shards.load(std::memory_order_acquire) : 0;
  for (std::size_t i = 0; i < used && block == nullptr; ++i) {
    if (i == mine.index()) continue;
    look(*shards[i]);
    if (block != nullptr) mine.lender.store(shards[i]->index(), std::memory_order_relaxed);
  }
  if (!within) settle(mine);
  return block;
}

/// From cheap to dear. Every step that may have changed something is followed by a new search. Other shards lend only
/// what cannot be had by growing to the wanted size, and only while much is free: threads that share a space meet at
/// its lock, and pieces that several of them left serve none of them better than their own.
DeviceCode CachingAllocator::Impl::find_block(Shard& mine, const BlockRequest& request, CoreLock& lock,
                                              BlockHeader*& block) {
  if ((block = search(mine, request, false)) != nullptr) return DeviceCode::ok;
  Shard* where = &mine;
  if (!may_grow(mine.pool(), request.rounded)) {
    const Bytes free = reserved_bytes() - live_sums().of[BlockSums::bytes];
    const bool borrow = free > reserved_bytes() / kFreeShareToBorrow;
    if (borrow && (block = search(mine, request, true)) != nullptr) return DeviceCode::ok;
    if (poll(lock) && (block = search(mine, request, borrow)) != nullptr) return DeviceCode::ok;
    if (borrow) where = &fullest(mine);
  }
  const DeviceCode code = grow(*where, mine, request, block);
  if (code == DeviceCode::ok && where != &mine) mine.lender.store(where->index(), std::memory_order_relaxed);
  return code == DeviceCode::out_of_memory ? squeeze(mine, request, lock, block) : code;
}

bool CachingAllocator::Impl::may_grow(const BlockPool& pool, Bytes bytes) {
  const Bytes granule = std::max<Bytes>(device.traits().granule_bytes, 1);
  return pool.reserved_bytes() + round_up(bytes, granule) <= budget_for(pool, bytes).wanted_bytes;
}

/// The shard with the most free memory, which stitching and moved granules can make the most of.
Shard& CachingAllocator::Impl::fullest(Shard& mine) {
  if (mine.index() == kPlainShard) return mine;
  Shard* fullest = &mine;
  Bytes most = 0;
  for_each_shard([&](Shard& shard) {
    const Bytes free = shard.pool().space().free_bytes();
    if (shard.index() == kPlainShard || free <= most) return;
    most = free;
    fullest = &shard;
  });
  return *fullest;
}

/// In bytes of one pool, the others' taken off.
GrowthBudget CachingAllocator::Impl::budget_for(const BlockPool& pool, Bytes bytes) {
  const Bytes live = live_sums().of[BlockSums::bytes] + parked.of[BlockSums::bytes] + bytes;
  const Bytes peak = std::max(live, peak_bytes.load(std::memory_order_relaxed));
  std::int64_t allocations = 0;
  for (const auto& shard : shards) allocations += shard->credit.up.get().of[BlockSums::blocks];
  const Bytes granule = std::max<Bytes>(device.traits().granule_bytes, 1);
  const std::int64_t moves_allowed = kFreeMoves + allocations / kAllocationsPerMove;
  const std::int64_t excess = std::min(counted.remaps / moves_allowed, kMostExcess);
  const Bytes share = excess == 0 ? peak / kSlackShare : peak / kRestlessSlackShare * excess;
  const auto threads = static_cast<Bytes>(std::max<std::size_t>(used_shards.load() - 1, 1));
  // Every thread's space has a peak of its own, and these do not fall together: up to four granules a thread, while
  // that is less than half of all, and never less than one.
  const Bytes least = std::max(threads, std::min(4 * threads - 3, peak / (kLeastSlackShare * granule))) * granule;
  const Bytes slack =
      options.growth_slack_bytes > 0 ? std::min(options.growth_slack_bytes, limit_bytes) : std::max(share, least);
  const Bytes others = reserved_bytes() - pool.reserved_bytes();
  const Bytes limit = limit_bytes - others;
  GrowthBudget budget{.wanted_bytes = std::min(peak + slack - others, limit), .limit_bytes = limit};
  if (options.garbage_threshold > 0) {
    const auto threshold = static_cast<Bytes>(options.garbage_threshold * static_cast<double>(budget.limit_bytes));
    if (pool.reserved_bytes() + bytes > threshold) budget.wanted_bytes = std::min(budget.wanted_bytes, threshold);
  }
  return budget;
}

DeviceCode CachingAllocator::Impl::grow(Shard& home, Shard& mine, const BlockRequest& request, BlockHeader*& block) {
  if (is_suspended) return DeviceCode::invalid;  // from the start, or since the caller waited without the lock
  const StreamSlot stream = order.slot_of(request.stream);
  BlockPool& pool = home.pool();
  const GrowthBudget budget = budget_for(pool, request.rounded);
  bool within = true;
  {
    const TwoShardsLock lock(home, mine);
    std::optional<RangeInfo> range;
    pool.prepare(stream);
    last_refusal = pool.grow(request.rounded, stream, budget, range);
    if (last_refusal != DeviceCode::ok) return last_refusal;
    block = home.make_block(request, stream, *range);
    within = charge(mine, home, sums_of(*block));
  }
  if (!within) settle(mine);
  return DeviceCode::ok;
}

/// At the limit: what any shard can make room for by joining, moving and stitching what it has.
DeviceCode CachingAllocator::Impl::grow_anywhere(Shard& mine, const BlockRequest& request, BlockHeader*& block) {
  DeviceCode code = grow(mine, mine, request, block);
  const std::size_t used = mine.index() == kPlainShard ? 0 : used_shards.load(std::memory_order_acquire);
  for (std::size_t i = kPlainShard + 1; i < used && code == DeviceCode::out_of_memory; ++i) {
    if (i == mine.index()) continue;
    (void)trim(0, &shards[i]->pool());
    code = grow(*shards[i], mine, request, block);
  }
  return code;
}

/// Memory is short: give back what other pools hold idle, then wait for one event after the other, looking again each
/// time. A block that is merely pending never causes an out-of-memory.
DeviceCode CachingAllocator::Impl::squeeze(Shard& mine, const BlockRequest& request, CoreLock& lock,
                                           BlockHeader*& block) {
  ++counted.num_alloc_retries;
  DeviceCode code = DeviceCode::out_of_memory;
  const auto again = [&] {
    code = DeviceCode::ok;
    if ((block = search(mine, request, true)) != nullptr) return true;
    (void)trim(0, &mine.pool());
    code = grow_anywhere(mine, request, block);
    return code != DeviceCode::out_of_memory;
  };
  if (again()) return code;
  if (options.pending_wait == PendingWait::stream) {
    if (poll(lock) && again()) return code;
    if (pending.order_behind(order.slot_of(request.stream), lock) && again()) return code;
  }
  for (;;) {
    if (poll(lock) && again()) return code;
    DeviceCode waited = pending.wait_one(lock);
    if (waited == DeviceCode::not_ready) {
      if (!pending.unfinished() && pending.parked_bytes() == 0) return DeviceCode::out_of_memory;
      // Where no thread is about to have recorded an event, none could be.
      waited = pending.wait_for_submission(lock) ? DeviceCode::ok : wait_for_device(lock);
    }
    if (waited != DeviceCode::ok) return waited;
    if (again()) return code;
  }
}

/// Lets go of the core lock meanwhile: others go on, and the device may be waiting for what they are about to submit.
DeviceCode CachingAllocator::Impl::wait_for_device(CoreLock& lock) {
  ++counted.host_waits;
  lock.unlock();
  const DeviceCode waited = order.synchronize(device);
  lock.lock();
  return waited;
}

void CachingAllocator::set_limit(Bytes bytes) {
  const std::lock_guard lock(impl_->core);
  impl_->limit_bytes = bytes;
}

Bytes CachingAllocator::trim(Bytes keep_bytes) {
  Impl::CoreLock lock(impl_->core);
  impl_->flush_all();
  (void)impl_->poll(lock);
  impl_->release_known({});
  return impl_->trim(keep_bytes);
}

Bytes CachingAllocator::empty_cache() {
  if (impl_->order.synchronize(impl_->device) != DeviceCode::ok) return 0;
  return trim(0);
}

Bytes CachingAllocator::defragment(StreamHandle stream, Bytes bytes) {
  const StreamSlot slot = impl_->order.slot_of(stream);
  Impl::CoreLock lock(impl_->core);
  impl_->flush_all();
  (void)impl_->poll(lock);
  impl_->release_known(slot);
  Bytes gathered = 0;
  impl_->for_each_shard([&](Shard& shard) {
    if (gathered > 0) return;
    shard.pool().prepare(slot);
    gathered = shard.pool().gather(slot, bytes);
  });
  return gathered;
}

}  // namespace tidemark::allocator
