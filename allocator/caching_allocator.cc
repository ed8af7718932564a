#include "allocator/caching_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>

#include "allocator/caching_allocator_impl.h"
#include "allocator/kept_contents.h"
#include "allocator/thread_number.h"

namespace tidemark::allocator {

namespace {

constinit thread_local bool text_is_gone = false;

struct ErrorText {
  std::string text;
  ~ErrorText() { text_is_gone = true; }
};

/// Of a thread whose thread-local objects are being destroyed. It stays behind, where a leak checker finds it.
struct LateText {
  std::string text;
  LateText* next = nullptr;
};
constinit std::atomic<LateText*> late_texts{nullptr};

LateText* add_late_text() {
  auto* const late = new LateText{.next = late_texts.load()};
  while (!late_texts.compare_exchange_weak(late->next, late)) {
  }
  return late;
}

}  // namespace

/// Static and thread-local objects may free blocks after the text of their thread was destroyed.
std::string& last_error_text() {
  if (text_is_gone) {
    thread_local LateText* const late = add_late_text();
    return late->text;
  }
  thread_local ErrorText error;
  return error.text;
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
  } catch (const TooManyStreams& many) {
    return fail(DeviceCode::no_resource, many.what());
  } catch (const std::bad_alloc&) {
    last_error_text() = "no host memory";  // short enough to need none
    return DeviceCode::no_resource;
  }
}

/// A power of two that is a multiple of what the device wants.
Bytes block_unit(const AllocatorOptions& options, const DeviceTraits& traits) {
  const auto alignment = static_cast<std::uint64_t>(std::max<Bytes>(traits.alignment_bytes, 1));
  return std::max(options.unit_bytes, static_cast<Bytes>(std::bit_ceil(alignment)));
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
      pending(device, order, counted) {
  MemoryInfo memory;
  if (device.memory_info(memory) != DeviceCode::ok) memory = {};
  limit_bytes = options.limit_bytes > 0 ? options.limit_bytes : memory.total_bytes;
  const bool mapping = device.traits().mapping;
  const Bytes usual = default_address_space(memory.total_bytes, device.traits().granule_bytes);
  const std::size_t threads = std::bit_ceil(options.shards);
  const Bytes share = std::max(kAllAddresses / static_cast<Bytes>(threads), memory.total_bytes);
  const Bytes space = options.address_space_bytes > 0 ? options.address_space_bytes : std::min(usual, share);
  const BlockPool::Shared of_pools{device, order, counted, history, unit};
  const Shard::Shared of_shards{order, std::countr_zero(static_cast<std::uint64_t>(unit)), options.front_cache_bytes};
  for (std::size_t i = 0; i <= threads; ++i) {
    std::unique_ptr<BlockPool> pool;
    if (mapping && i != kPlainShard) {
      pool = std::make_unique<MappedPool>(of_pools, space);
    } else {
      pool = std::make_unique<PlainPool>(of_pools);
    }
    shards.push_back(std::make_unique<Shard>(of_shards, static_cast<std::uint16_t>(i), std::move(pool)));
  }
}

CachingAllocator::Impl::~Impl() {
  const bool handed_out = std::any_of(
      shards.begin(), shards.end(), [](const auto& shard) { return shard->credit.up.get().of[BlockSums::blocks] > 0; });
  if (handed_out) (void)order.synchronize(device);  // a lost device has nothing in flight
  pending.destroy_events();
  for (const auto& shard : shards) shard->pool().release();
}

Shard& CachingAllocator::Impl::my_shard() {
  const std::size_t index = 1 + (thread_number() & (shards.size() - 2));
  std::size_t used = used_shards.load(std::memory_order_acquire);
  while (used <= index && !used_shards.compare_exchange_weak(used, index + 1, std::memory_order_acq_rel)) {
  }
  return *shards[index];
}

BlockHeader* CachingAllocator::Impl::find(Address address, const Shard& mine) const {
  if (mine.covers(address)) return mine.find(address);
  const std::size_t used = used_shards.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; ++i) {
    if (shards[i]->covers(address)) return shards[i]->find(address);
  }
  for (std::size_t i = 0; i < used; ++i) {  // plain segments lie anywhere
    if (BlockHeader* block = shards[i]->find(address); block != nullptr) return block;
  }
  return nullptr;
}

Bytes CachingAllocator::Impl::rounded(Bytes bytes) const {
  return (std::clamp<Bytes>(bytes, 1, kLargestRequest) + tail_pad + unit - 1) & -unit;
}

/// All that were ever used. One used for the first time meanwhile has a higher index, so that the order is kept.
void CachingAllocator::Impl::lock_shards() {
  std::size_t locked = 0;
  while (locked < used_shards.load(std::memory_order_acquire)) shards[locked++]->lock.lock();
  locked_shards = locked;
}

void CachingAllocator::Impl::unlock_shards() {
  for (std::size_t i = std::exchange(locked_shards, 0); i-- > 0;) shards[i]->lock.unlock();
}

/// Locks in the order in which calls take them. The child's threads are gone, and with them their waits.
ForkSteps CachingAllocator::Impl::fork_steps() {
  const auto unlock = [this] {
    history.mutex().unlock();
    uses_mutex.unlock();
    unlock_shards();
    core.unlock();
  };
  return {.before_fork =
              [this] {
                core.lock();
                for (const auto& shard : shards) shard->lock.lock();  // also what a thread is about to use first
                locked_shards = shards.size();
                uses_mutex.lock();
                history.mutex().lock();
              },
          .after_fork_in_parent = unlock,
          .after_fork_in_child =
              [this, unlock] {
                pending.forget_waits();
                (void)raise_peaks();  // the threads that were about to are gone
                unlock();
              }};
}

BlockSums CachingAllocator::Impl::live_sums() const {
  return live_sums(used_shards.load(std::memory_order_acquire));
}

BlockSums CachingAllocator::Impl::live_sums(std::size_t count) const {
  BlockSums live;
  for (std::size_t i = 0; i < count; ++i) (live += shards[i]->credit.up.get()) -= shards[i]->credit.down.get();
  return live;
}

BlockSums CachingAllocator::Impl::raise_peaks() {
  const BlockSums live = live_sums(locked_shards);
  BlockSums active = parked;
  active += live;
  BlockSums room;
  for (std::size_t sum = 0; sum < BlockSums::kSums; ++sum) {
    peaks.of[sum] = std::max(peaks.of[sum], live.of[sum]);
    active_peaks.of[sum] = std::max(active_peaks.of[sum], active.of[sum]);
    room.of[sum] = std::min(peaks.of[sum] - live.of[sum], active_peaks.of[sum] - active.of[sum]);
  }
  peak_bytes.store(peaks.of[BlockSums::bytes], std::memory_order_relaxed);
  for (std::size_t i = 0; i < locked_shards; ++i) shards[i]->credit.deal(room);
  return room;
}

/// Shards that are busy are passed over.
bool CachingAllocator::Impl::borrow_credit(Shard& overdrawn, Shard& home) {
  const std::size_t used = used_shards.load(std::memory_order_acquire);
  PeakCredit& own = overdrawn.credit;
  if (&home != &overdrawn && own.borrow(home.credit)) return true;
  for (std::size_t tried = 0, i = own.lender; tried < used; ++tried, i = i + 1 < used ? i + 1 : 0) {
    Shard& other = *shards[i];
    if (&other == &overdrawn || !own.can_borrow(other.credit)) continue;
    const std::unique_lock lock(other.lock, std::try_to_lock);
    if (!lock.owns_lock()) continue;
    own.lender = i;
    if (own.borrow(other.credit)) return true;
  }
  return false;
}

void CachingAllocator::Impl::settle(Shard& overdrawn) {
  with_shards_locked([&] { overdrawn.credit.credit += raise_peaks(); });
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
                                            Kind kind) {
  address = 0;
  if (bytes < 0) return fail(DeviceCode::invalid, fmt::format("an allocation of {} bytes", bytes));
  const BlockRequest request{
      .bytes = bytes, .rounded = rounded(bytes), .stream = stream, .owner = owner, .is_lent = kind == Kind::lent};
  Shard& mine = kind == Kind::plain && device.traits().mapping ? *shards[kPlainShard] : my_shard();
  BlockHeader* block = allocate_in(mine, mine, request);
  if (block == nullptr) {
    const std::size_t lender = mine.lender.load(std::memory_order_relaxed);
    if (lender != kPlainShard) block = allocate_in(*shards[lender], mine, request);
  }
  if (block == nullptr) {
    if (const DeviceCode code = allocate_slow(mine, request, block); code != DeviceCode::ok) return code;
  }
  address = block->address();
  trace(TraceAction::alloc, address, block->bytes, stream, owner);
  return DeviceCode::ok;
}

BlockHeader* CachingAllocator::Impl::allocate_in(Shard& home, Shard& mine, const BlockRequest& request) {
  BlockHeader* block = nullptr;
  bool within = true;
  {
    const TwoShardsLock lock(home, mine);
    block = home.allocate(request);
    // Not sums_of(): a load of both sizes at once waits for the store of the one that was just written.
    if (block != nullptr && !request.is_lent) within = charge(mine, home, {{block->bytes, request.bytes, 1}});
  }
  if (!within) settle(mine);
  return block;
}

void CachingAllocator::Impl::count_part(const BlockSums& part) {
  Shard& mine = my_shard();
  bool within = true;
  {
    const std::lock_guard lock(mine.lock);
    within = charge(mine, mine, part);
  }
  if (!within) settle(mine);
}

void CachingAllocator::Impl::discount_part(const BlockSums& part) {
  Shard& mine = my_shard();
  const std::lock_guard lock(mine.lock);
  mine.credit.shrink(part);
}

namespace {

DeviceCode fail_not_live(Address address) {
  return fail(DeviceCode::invalid, fmt::format("{:#x} is not the start of a live block", address));
}

}  // namespace

/// To the shard that it came from, at once or over its stack; what more than one stream has used goes the longer way.
/// A block is claimed and counted under the same lock: a fork finds it live or free, never between.
DeviceCode CachingAllocator::Impl::free(Address address, const StreamHandle* stream) {
  const StreamSlot named = stream == nullptr ? StreamSlot{} : order.slot_of(*stream);
  Shard& mine = my_shard();
  {
    const std::lock_guard lock(mine.lock);
    BlockHeader* block = find(address, mine);
    if (block == nullptr || !block->claim(address)) return fail_not_live(address);
    if ((stream == nullptr || named == block->stream) && !block->has_uses.load(std::memory_order_relaxed)) {
      free_simple(block, mine);
      return DeviceCode::ok;
    }
    block->become(BlockState::live);
  }
  return free_shared(address, stream == nullptr ? nullptr : &named);
}

void CachingAllocator::Impl::trace_free(const BlockHeader& block, StreamSlot last) {
  if (!history.on()) return;
  const StreamHandle handle = order.handle_of(last);
  trace(TraceAction::free_requested, block.address(), block.bytes, handle, block.owner);
  if (!block.has_uses) trace(TraceAction::free_completed, block.address(), block.bytes, handle, block.owner);
}

/// Cannot fail.
void CachingAllocator::Impl::free_simple(BlockHeader* block, Shard& mine) {
  trace_free(*block, block->stream);
  mine.credit.shrink(sums_of(*block));
  Shard& home = *shards[block->shard];
  if (&home == &mine) return mine.keep(block);
  ++mine.remote_frees;
  block->death = order.death_epoch(block->stream);
  home.push_remote(block);
}

/// Of a block with other streams' uses, or freed on another stream than its own.
DeviceCode CachingAllocator::Impl::free_shared(Address address, const StreamSlot* named) {
  const std::lock_guard lock(core);
  BlockHeader* block = find(address);
  if (block == nullptr || !block->claim(address)) return fail_not_live(address);
  try {
    retire(block, named == nullptr ? block->stream : *named);
  } catch (...) {  // nothing was done with it
    block->become(BlockState::live);
    throw;
  }
  return DeviceCode::ok;
}

/// To the space, or parked until every death is over. What can fail comes first. Under the core lock.
void CachingAllocator::Impl::retire(BlockHeader* block, StreamSlot last) {
  Frontier frontier;
  const Epoch death = order.death_epoch(last);
  MetadataVector<StreamSlot> users;
  if (block->has_uses) {
    const std::lock_guard lock(uses_mutex);
    users = uses[block];
  }
  frontier.add({.stream = last, .epoch = death}, order.tick());
  for (const StreamSlot user : users) frontier.add({.stream = user, .epoch = order.death_epoch(user)}, order.tick());
  pending.prepare(last);
  for (const StreamSlot user : users) pending.prepare(user);
  Shard& home = *shards[block->shard];
  const std::lock_guard home_lock(home.lock);
  home.pool().prepare(last);
  trace_free(*block, last);  // from here on nothing fails
  if (block->has_uses.exchange(false)) {
    const std::lock_guard uses_lock(uses_mutex);
    uses.erase(block);
  }
  block->stream = last;
  if (users.empty() || order.dominated(frontier, last)) {
    home.credit.shrink(sums_of(*block));
    home.release(block, last, users.empty() ? death : order.death_epoch(last));
    return;
  }
  home.credit.down += sums_of(*block);  // no credit: the block is still active; settle() finds it afterwards
  parked += sums_of(*block);
  pending.note_death({.stream = last, .epoch = death});
  for (const StreamSlot user : users) pending.note_death({.stream = user, .epoch = order.death_epoch(user)});
  pending.park(block, frontier);
}

DeviceCode CachingAllocator::Impl::note_use(Address address, StreamHandle stream) {
  BlockHeader* block = find(address);
  const std::lock_guard lock(uses_mutex);
  if (block == nullptr || !block->is_live_at(address)) return fail_not_live(address);
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
  return guarded([&] { return impl_->allocate(bytes, stream, address, owner, Impl::Kind::usual); });
}
DeviceCode CachingAllocator::allocate_plain(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner) {
  return guarded([&] { return impl_->allocate(bytes, stream, address, owner, Impl::Kind::plain); });
}
DeviceCode CachingAllocator::allocate_lent(Bytes bytes, StreamHandle stream, Address& address) {
  return guarded([&] { return impl_->allocate(bytes, stream, address, 0, Impl::Kind::lent); });
}
void CachingAllocator::count_part(Bytes bytes) {
  impl_->count_part({{rounded_bytes(bytes), bytes, 1}});
}
void CachingAllocator::discount_part(Bytes bytes) {
  impl_->discount_part({{rounded_bytes(bytes), bytes, 1}});
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
  const BlockHeader* block = impl_->find(address);
  return block != nullptr && block->is_live_at(address) ? block->bytes : 0;
}

Bytes CachingAllocator::rounded_bytes(Bytes bytes) const {
  return impl_->rounded(bytes);
}

const std::string& CachingAllocator::last_error() const {
  return last_error_text();
}

}  // namespace tidemark::allocator
