#include "allocator/caching_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <new>

#include "allocator/caching_allocator_impl.h"

namespace tidemark {

std::string& last_error_text() {
  thread_local std::string text;
  return text;
}

namespace {

DeviceCode fail(DeviceCode code, std::string text) {
  last_error_text() = std::move(text);
  return code;
}

/// The allocator's own records need host memory, too.
template <class Act>
DeviceCode guarded(const Act& act) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
    last_error_text() = "no host memory";  // short enough to need none
    return DeviceCode::no_resource;
  }
}

unsigned thread_number() {
  static std::atomic<unsigned> threads{0};
  thread_local const unsigned number = threads.fetch_add(1, std::memory_order_relaxed);
  return number;
}

/// A multiple of what the device wants.
Bytes block_unit(const AllocatorOptions& options, const DeviceTraits& traits) {
  return round_up(options.unit_bytes, std::max<Bytes>(traits.alignment_bytes, 1));
}

}  // namespace

CachingAllocator::Impl::Impl(Device& the_device, StreamOrder& the_order, AllocatorOptions the_options)
    : device(the_device),
      order(the_order),
      judged(check_options(the_options, device.traits())),
      options(judged ? std::move(the_options) : AllocatorOptions{}),
      unit(block_unit(options, device.traits())),
      tail_pad(device.traits().tail_pad_bytes),
      history(options.trace_entries),
      shards(std::make_unique<Shard[]>(options.shards)),
      shard_count(options.shards),
      pending(device, order, counted) {
  MemoryInfo memory;
  if (device.memory_info(memory) != DeviceCode::ok) memory = {};
  limit_bytes = options.limit_bytes > 0 ? options.limit_bytes : memory.total_bytes;
  const BlockPool::Shared shared{device, order, counted, history, unit};
  const bool mapping = device.traits().mapping;
  if (mapping) {
    const Bytes usual = default_address_space(memory.total_bytes, device.traits().granule_bytes);
    const Bytes space = options.address_space_bytes > 0 ? options.address_space_bytes : usual;
    auto pool = std::make_unique<MappedPool>(shared, space);
    mapped = pool.get();
    owned[kMain] = std::move(pool);
  } else {
    owned[kMain] = std::make_unique<PlainPool>(shared);
  }
  if (mapping) owned[kPlain] = std::make_unique<PlainPool>(shared);
  pools[kMain] = owned[kMain].get();
  pools[kPlain] = mapping ? owned[kPlain].get() : pools[kMain];
}

CachingAllocator::Impl::~Impl() {
  if (used) (void)order.synchronize(device);  // a lost device has nothing in flight
  pending.destroy_events();
  for (auto& pool : owned) {
    if (pool != nullptr) pool->release();
  }
}

Shard& CachingAllocator::Impl::my_shard() {
  return shards[thread_number() % shard_count];
}

void CachingAllocator::Impl::trace(TraceAction action, Address address, Bytes bytes, StreamHandle stream,
                                   std::uint32_t owner) {
  if (!history.on()) return;
  history.add({.action = action,
               .address = address,
               .size = bytes,
               .stream = stream,
               .time_ns = device.now_ns(),
               .owner = owner});
}

DeviceCode CachingAllocator::Impl::allocate(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner,
                                            std::uint8_t pool) {
  address = 0;
  if (bytes < 0) return fail(DeviceCode::invalid, fmt::format("an allocation of {} bytes", bytes));
  const Bytes sane = std::min(bytes, kLargestRequest);
  const Request request{.bytes = bytes,
                        .rounded = round_up(std::max<Bytes>(sane, 1) + tail_pad, unit),
                        .stream = stream,
                        .owner = owner,
                        .pool = pools[pool] == pools[kMain] ? kMain : pool};
  BlockHeader* block = nullptr;
  if (request.pool == kMain) block = allocate_front(request);
  if (block == nullptr) {
    if (const DeviceCode code = allocate_slow(request, block); code != DeviceCode::ok) return code;
  }
  address = block->address;
  trace(TraceAction::alloc, address, block->bytes, stream, owner);
  return DeviceCode::ok;
}

BlockHeader* CachingAllocator::Impl::allocate_front(const Request& request) {
  Shard& shard = my_shard();
  const std::lock_guard lock(shard.lock);
  StreamLists& lists = shard.lists_of(request.stream, order);
  BlockHeader* block = nullptr;
  if (is_front_size(request.rounded)) {
    if (shard.has_remote()) shard.drain_remote(unit);
    block = shard.reuse(lists, size_class(request.rounded));
    if (block == nullptr) return nullptr;
  } else {
    block = shard.reuse_held(lists.slot(), request.rounded);
    if (block == nullptr) return nullptr;
    block->shard = static_cast<std::uint16_t>(&shard - shards.get());
    unpublished.fetch_or(bit_of(shard), std::memory_order_relaxed);
  }
  block->requested_bytes = request.bytes;
  block->owner = request.owner;
  block->state.store(BlockState::live, std::memory_order_release);
  shard.tally.add(*block);
  ++shard.tally.front_hits;
  return block;
}

DeviceCode CachingAllocator::Impl::free(Address address, const StreamHandle* stream) {
  const StreamSlot named = stream == nullptr ? StreamSlot{} : order.slot_of(*stream);
  BlockHeader* block = map.find(address);
  BlockState expected = BlockState::live;
  if (block == nullptr ||
      !block->state.compare_exchange_strong(expected, BlockState::freed, std::memory_order_acq_rel)) {
    return fail(DeviceCode::invalid, fmt::format("{:#x} is not the start of a live block", address));
  }
  const StreamSlot last = stream == nullptr ? block->stream : named;
  Shard& mine = my_shard();
  const bool simple = last == block->stream && !block->has_uses.load(std::memory_order_relaxed);
  if (simple && block->pool == kMain) {
    is_front_size(block->bytes) ? free_home(block, mine) : free_held(block, mine);
    return DeviceCode::ok;
  }
  try {
    free_shared(block, last, mine);
  } catch (...) {  // nothing was done with it
    block->state.store(BlockState::live, std::memory_order_release);
    throw;
  }
  return DeviceCode::ok;
}

void CachingAllocator::Impl::trace_free(const BlockHeader& block, StreamSlot last) {
  if (!history.on()) return;
  const StreamHandle handle = order.handle_of(last);
  trace(TraceAction::free_requested, block.address, block.bytes, handle, block.owner);
  if (!block.has_uses) trace(TraceAction::free_completed, block.address, block.bytes, handle, block.owner);
}

/// To the shard that it came from: the caller's own lists, or another's lock-free stack. Cannot fail.
void CachingAllocator::Impl::free_home(BlockHeader* block, Shard& mine) {
  trace_free(*block, block->stream);
  Shard& home = shards[block->shard];
  bool full = false;
  {
    const std::lock_guard lock(mine.lock);
    mine.tally.remove(*block);
    StreamLists* lists = &home == &mine ? mine.find_lists(block->stream) : nullptr;
    if (lists != nullptr) {
      block->death = lists->death_epoch();
      mine.keep(*lists, size_class(block->bytes), block);
      full = mine.cached_bytes() > front_limit.load(std::memory_order_relaxed);
    } else {
      block->death = order.death_epoch(block->stream);
      ++mine.tally.remote_frees;
      home.push_remote(block);
    }
    full |= mine.tally.allocated_bytes.current < -kTallyQuantum;
  }
  if (!full) return;
  const std::lock_guard lock(core);
  (void)flush(mine);
}

/// Large blocks stay with the shard until the next one, so that a pair of calls need not go to the pool. Cannot fail.
void CachingAllocator::Impl::free_held(BlockHeader* block, Shard& mine) {
  trace_free(*block, block->stream);
  BlockHeader* before = nullptr;
  {
    const std::lock_guard lock(mine.lock);
    mine.tally.remove(*block);
    block->death = order.death_epoch(block->stream);
    before = mine.hold(block);
  }
  unpublished.fetch_or(bit_of(mine), std::memory_order_relaxed);
  if (before == nullptr) return;
  const std::lock_guard lock(core);
  release(before, before->stream, before->death);
}

/// Those with other streams' uses, plain ones and frees on another stream go to the pool. What can fail comes first.
void CachingAllocator::Impl::free_shared(BlockHeader* block, StreamSlot last, Shard& mine) {
  Frontier frontier;
  const Epoch death = order.death_epoch(last);
  MetadataVector<StreamSlot> users;
  if (block->has_uses) {
    const std::lock_guard lock(uses_mutex);
    users = uses[block];
  }
  frontier.add({.stream = last, .epoch = death}, order.tick());
  for (const StreamSlot user : users) {
    const Death use{.stream = user, .epoch = order.death_epoch(user)};
    frontier.add(use, order.tick());
  }
  const std::lock_guard lock(core);
  prepare(last);
  for (const StreamSlot user : users) pending.prepare(user);
  trace_free(*block, last);  // from here on nothing fails
  if (block->has_uses.exchange(false)) {
    const std::lock_guard uses_lock(uses_mutex);
    uses.erase(block);
  }
  {
    const std::lock_guard shard_lock(mine.lock);
    mine.tally.remove(*block);
  }
  publish(mine);
  pending.note_death({.stream = last, .epoch = death});
  for (const StreamSlot user : users) pending.note_death({.stream = user, .epoch = order.death_epoch(user)});
  block->stream = last;
  if (users.empty() || order.dominated(frontier, last)) {
    release(block, last, users.empty() ? death : order.death_epoch(last));
  } else {
    pending.park(block, frontier);
    counted.active_bytes.peak =
        std::max(counted.active_bytes.peak, counted.allocated_bytes.current + pending.parked_bytes());
  }
}

DeviceCode CachingAllocator::Impl::note_use(Address address, StreamHandle stream) {
  BlockHeader* block = map.find(address);
  const std::lock_guard lock(uses_mutex);
  if (block == nullptr || block->state.load(std::memory_order_acquire) != BlockState::live) {
    return fail(DeviceCode::invalid, fmt::format("{:#x} is not the start of a live block", address));
  }
  const StreamSlot slot = order.slot_of(stream);
  if (slot == block->stream) return DeviceCode::ok;
  auto& users = uses[block];
  if (std::find(users.begin(), users.end(), slot) == users.end()) users.push_back(slot);
  block->has_uses.store(true, std::memory_order_release);
  return DeviceCode::ok;
}

CachingAllocator::CachingAllocator(Device& device, StreamOrder& order, AllocatorOptions options)
    : impl_(std::make_unique<Impl>(device, order, std::move(options))) {}
CachingAllocator::~CachingAllocator() = default;

DeviceCode CachingAllocator::allocate(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner) {
  return guarded([&] { return impl_->allocate(bytes, stream, address, owner, Impl::kMain); });
}
DeviceCode CachingAllocator::allocate_plain(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner) {
  return guarded([&] { return impl_->allocate(bytes, stream, address, owner, Impl::kPlain); });
}
DeviceCode CachingAllocator::free(Address address) {
  return guarded([&] { return impl_->free(address, nullptr); });
}
DeviceCode CachingAllocator::free(Address address, StreamHandle stream) {
  return guarded([&] { return impl_->free(address, &stream); });
}
DeviceCode CachingAllocator::note_use(Address address, StreamHandle stream) {
  return guarded([&] { return impl_->note_use(address, stream); });
}

Bytes CachingAllocator::block_bytes(Address address) const {
  const BlockHeader* block = impl_->map.find(address);
  return block != nullptr && block->state.load(std::memory_order_acquire) == BlockState::live ? block->bytes : 0;
}

Bytes CachingAllocator::rounded_bytes(Bytes bytes) const {
  return round_up(std::max<Bytes>(bytes, 1) + impl_->tail_pad, impl_->unit);
}

const std::string& CachingAllocator::last_error() const {
  return last_error_text();
}

}  // namespace tidemark
