// What CachingAllocator does when a shard has no block at hand.

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "allocator/caching_allocator_impl.h"

namespace tidemark {
namespace {

// Beyond the live peak, of which share more is mapped before idle granules are moved. A step that repeats itself moves
// granules while it is learnt and then no more; a workload that goes on moving them gets room instead, for a device
// takes as long over one move as over thousands of allocations.
constexpr Bytes kSlackShare = 256;
constexpr Bytes kRestlessSlackShare = 8;
constexpr std::int64_t kMostExcess = 4;
constexpr std::int64_t kFreeMoves = 1024;
constexpr std::int64_t kAllocationsPerMove = 1024;

}  // namespace

void CachingAllocator::Impl::absorb(Tally& tally) {
  const auto merge = [](Counter& into, Counter& from) {
    into.peak = std::max(into.peak, into.current + from.peak);
    into.current += from.current;
    into.total_up += from.total_up;
    into.total_down += from.total_down;
    from = {};
  };
  const Bytes before = counted.allocated_bytes.current;
  counted.active_bytes.peak =
      std::max(counted.active_bytes.peak, before + tally.allocated_bytes.peak + pending.parked_bytes());
  merge(counted.allocated_bytes, tally.allocated_bytes);
  merge(counted.requested_bytes, tally.requested_bytes);
  merge(counted.allocation, tally.allocation);
  counted.front_hits += std::exchange(tally.front_hits, 0);
  counted.remote_frees += std::exchange(tally.remote_frees, 0);
}

void CachingAllocator::Impl::publish(Shard& shard) {
  const std::lock_guard lock(shard.lock);
  absorb(shard.tally);
}

void CachingAllocator::Impl::settle(Shard& mine) {
  BlockHeader* held = nullptr;
  {
    const std::lock_guard lock(mine.lock);
    absorb(mine.tally);
    held = mine.hold(nullptr);
  }
  if (held != nullptr) release(held, held->stream, held->death);
  const std::uint64_t changed = unpublished.exchange(0, std::memory_order_relaxed);  // a bit may be several shards'
  for (std::size_t i = 0; changed != 0 && i < shard_count; ++i) {
    if ((changed >> i % 64 & 1) != 0 && &shards[i] != &mine) publish(shards[i]);
  }
}

void CachingAllocator::Impl::prepare(StreamSlot stream) {
  pending.prepare(stream);
  for (const auto& pool : owned) {
    if (pool != nullptr) pool->prepare(stream);
  }
}

/// A block goes back to its pool, free for `stream` at once and for others after `stamp`. Cannot fail:
/// the stream is prepared.
void CachingAllocator::Impl::release(BlockHeader* block, StreamSlot stream, Epoch stamp) {
  BlockPool& pool = pool_of(block->pool);
  pending.note_death({.stream = stream, .epoch = stamp});
  map.set(block->address, nullptr);
  pool.set_holder(block->range, nullptr);
  pool.give(block->range, stream, stamp);
  table.put(block);
}

void CachingAllocator::Impl::release_known(StreamSlot requester) {
  if (!pending.news()) return;
  pending.release_known(requester, [this](BlockHeader* block, StreamSlot stream, Epoch stamp) {
    trace(TraceAction::free_completed, block->address, block->bytes, order.handle_of(stream), block->owner);
    release(block, stream, stamp);
  });
}

bool CachingAllocator::Impl::flush(Shard& shard) {
  BlockHeader* block = nullptr;
  {
    const std::lock_guard lock(shard.lock);
    absorb(shard.tally);
    block = shard.take_all();
  }
  const bool any = block != nullptr;
  while (block != nullptr) {
    BlockHeader* next = block->next;
    release(block, block->stream, block->death);
    block = next;
  }
  return any;
}

bool CachingAllocator::Impl::flush_all() {
  bool any = false;
  for (std::size_t i = 0; i < shard_count; ++i) any |= flush(shards[i]);
  return any;
}

Bytes CachingAllocator::Impl::limit_of(const BlockPool& pool) const {
  Bytes others = 0;
  for (const auto& other : owned) {
    if (other != nullptr && other.get() != &pool) others += other->reserved_bytes();
  }
  return limit_bytes - others;
}

bool CachingAllocator::Impl::search(const Request& request, StreamSlot stream, Search how,
                                    std::optional<RangeInfo>& range) {
  release_known(stream);
  range = pool_of(request.pool).take(request.rounded, stream, how);
  return range.has_value();
}

BlockHeader* CachingAllocator::Impl::make_block(const Request& request, StreamSlot stream, const RangeInfo& range) {
  BlockPool& pool = pool_of(request.pool);
  BlockHeader* block = nullptr;
  const Address address = pool.start_of(range);
  try {
    block = table.take();
    block->address = address;
    pool.set_holder(range.id, block);
    map.set(address, block);
  } catch (...) {
    if (block != nullptr) table.put(block);
    pool.give(range.id, stream, order.death_epoch(stream));
    throw;
  }
  block->bytes = range.bytes;
  block->requested_bytes = request.bytes;
  block->range = range.id;
  block->stream = stream;
  block->owner = request.owner;
  block->pool = request.pool;
  block->has_uses.store(false, std::memory_order_relaxed);
  block->state.store(BlockState::live, std::memory_order_release);
  used = true;
  return block;
}

DeviceCode CachingAllocator::Impl::allocate_slow(const Request& request, BlockHeader*& block) {
  if (!judged) {
    last_error_text() = judged.error().message;
    return DeviceCode::invalid;
  }
  Shard& mine = my_shard();
  const StreamSlot stream = order.slot_of(request.stream);
  std::optional<RangeInfo> range;
  DeviceCode code = DeviceCode::ok;
  OutOfMemory report;
  {
    CoreLock lock(core);
    prepare(stream);
    settle(mine);
    code = find_block(request, stream, lock, range);
    front_limit.store(
        std::min(options.front_cache_bytes, std::max(counted.reserved_bytes.current / kFrontShare, kFrontLeast)),
        std::memory_order_relaxed);
    if (code == DeviceCode::ok) {
      block = make_block(request, stream, *range);
      block->shard = static_cast<std::uint16_t>(&mine - shards.get());
      Tally tally;
      tally.add(*block);
      absorb(tally);
      return code;
    }
    if (code == DeviceCode::out_of_memory) ++counted.num_ooms;
  }
  if (code != DeviceCode::out_of_memory) {
    last_error_text() = fmt::format("{}: {}", name_of(code), device.last_error());
    return code;
  }
  report = this->report();
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

/// From cheap to dear. Every step that may have changed something is followed by a new search; nothing is released
/// between a search that succeeded and the block made of it.
DeviceCode CachingAllocator::Impl::find_block(const Request& request, StreamSlot stream, CoreLock& lock,
                                              std::optional<RangeInfo>& range) {
  if (search(request, stream, Search::fast, range)) return DeviceCode::ok;
  (void)flush_all();
  if (search(request, stream, Search::thorough, range)) return DeviceCode::ok;
  if (pending.poll() && search(request, stream, Search::thorough, range)) return DeviceCode::ok;
  const DeviceCode code = grow(request, stream, range);
  return code == DeviceCode::out_of_memory ? squeeze(request, stream, lock, range) : code;
}

DeviceCode CachingAllocator::Impl::grow(const Request& request, StreamSlot stream, std::optional<RangeInfo>& range) {
  BlockPool& pool = pool_of(request.pool);
  const Bytes live = counted.allocated_bytes.current + pending.parked_bytes() + request.rounded;
  const Bytes peak = std::max(live, counted.allocated_bytes.peak);
  const Bytes granule = std::max<Bytes>(device.traits().granule_bytes, 1);
  const std::int64_t moves_allowed = kFreeMoves + counted.allocation.total_up / kAllocationsPerMove;
  const std::int64_t excess = std::min(counted.remaps / moves_allowed, kMostExcess);
  const Bytes share = excess == 0 ? peak / kSlackShare : peak / kRestlessSlackShare * excess;
  const Bytes slack = options.growth_slack_bytes > 0 ? options.growth_slack_bytes : std::max(share, granule);
  GrowthBudget budget{.wanted_bytes = peak + slack, .limit_bytes = limit_of(pool)};
  if (options.garbage_threshold > 0) {
    const auto threshold = static_cast<Bytes>(options.garbage_threshold * static_cast<double>(budget.limit_bytes));
    if (pool.reserved_bytes() + request.rounded > threshold) {
      budget.wanted_bytes = std::min(budget.wanted_bytes, threshold);
    }
  }
  last_refusal = DeviceCode::ok;
  const DeviceCode code = pool.grow(request.rounded, stream, budget, range);
  if (code != DeviceCode::ok) last_refusal = code;
  return code;
}

/// Memory is short: give back what other pools hold idle, then wait for one event after the other, looking again each
/// time. A block that is merely pending never causes an out-of-memory.
DeviceCode CachingAllocator::Impl::squeeze(const Request& request, StreamSlot stream, CoreLock& lock,
                                           std::optional<RangeInfo>& range) {
  ++counted.num_alloc_retries;
  DeviceCode code = DeviceCode::out_of_memory;
  const auto again = [&] {
    (void)flush_all();
    if (search(request, stream, Search::thorough, range)) return true;
    for (const auto& pool : owned) {
      if (pool != nullptr && pool.get() != &pool_of(request.pool)) pool->trim(0);
    }
    code = grow(request, stream, range);
    return code != DeviceCode::out_of_memory;
  };
  if (again()) return range ? DeviceCode::ok : code;
  if (options.pending_wait == PendingWait::stream) {
    if (pending.poll() && again()) return range ? DeviceCode::ok : code;
    if (pending.order_behind(stream) && again()) return range ? DeviceCode::ok : code;
  }
  for (;;) {
    if (pending.poll() && again()) return range ? DeviceCode::ok : code;
    DeviceCode waited = pending.wait_one(lock);
    if (waited == DeviceCode::not_ready) {
      if (!pending.unfinished() && pending.parked_bytes() == 0) return DeviceCode::out_of_memory;
      waited = wait_for_device(lock);  // no event could be recorded
    }
    if (waited != DeviceCode::ok) return waited;
    if (again()) return range ? DeviceCode::ok : code;
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
  const std::lock_guard lock(impl_->core);
  impl_->prepare({});
  (void)impl_->flush_all();
  (void)impl_->pending.poll();
  impl_->release_known({});
  Bytes reserved = impl_->counted.reserved_bytes.current, gone = 0;
  for (const auto& pool : impl_->owned) {
    if (pool == nullptr || reserved <= keep_bytes) continue;
    const Bytes went = pool->trim(std::max<Bytes>(keep_bytes - (reserved - pool->reserved_bytes()), 0));
    reserved -= went;
    gone += went;
  }
  return gone;
}

Bytes CachingAllocator::empty_cache() {
  if (impl_->order.synchronize(impl_->device) != DeviceCode::ok) return 0;
  return trim(0);
}

Bytes CachingAllocator::defragment(StreamHandle stream, Bytes bytes) {
  const StreamSlot slot = impl_->order.slot_of(stream);
  const std::lock_guard lock(impl_->core);
  if (impl_->mapped == nullptr) return 0;
  impl_->prepare(slot);
  (void)impl_->flush_all();
  (void)impl_->pending.poll();
  impl_->release_known(slot);
  return impl_->mapped->gather(slot, bytes);
}

}  // namespace tidemark
