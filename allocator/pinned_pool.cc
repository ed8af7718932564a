#include "allocator/pinned_pool.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "allocator/give_back.h"
#include "allocator/pinned_pool_state.h"

namespace tidemark::allocator {
namespace {

constexpr std::int64_t kLongestWaitNs = 1'000'000'000'000'000'000;  ///< 30 years; more would overflow the clock

}  // namespace

const char* name_of(PinnedReport::Kind kind) {
  switch (kind) {
    case PinnedReport::Kind::refused:
      return "refused";
    case PinnedReport::Kind::pageable:
      return "pageable";
    case PinnedReport::Kind::numa_unbound:
      return "NUMA node not bound";
    case PinnedReport::Kind::no_huge_pages:
      return "no huge pages";
    case PinnedReport::Kind::not_locked:
      return "not locked";
  }
  return "unknown";
}

Bytes PinnedPool::State::rounded(const PinnedBlock& block) const {
  return round_up(block.bytes, options.class_bytes);
}

Bytes PinnedPool::State::largest_free() const {
  Bytes largest = 0;
  for (const Chunk& chunk : chunks) {
    if (chunk.base != 0) largest = std::max(largest, chunk.space.largest_free_bound());
  }
  return largest;
}

bool PinnedPool::State::take_from(std::size_t index, Bytes bytes, OffsetAllocator::Search search, PinnedBlock& block) {
  Chunk& chunk = chunks[index];
  if (chunk.base == 0) return false;
  const std::optional<RangeInfo> range = chunk.space.allocate(bytes, 0, kDefaultDomain, search);
  if (!range) return false;
  block = {.address = chunk.base + static_cast<Address>(range->offset),
           .bytes = bytes,
           .chunk = static_cast<std::uint32_t>(index),
           .node = static_cast<std::uint32_t>(range->id)};
  counts.used_bytes += rounded(block);
  counts.requested_bytes += bytes;
  counts.peak_used_bytes = std::max(counts.peak_used_bytes, counts.used_bytes + counts.pending_bytes);
  ++counts.live_blocks;
  ++counts.allocations;
  return true;
}

bool PinnedPool::State::take(Bytes bytes, PinnedBlock& block) {
  for (const auto search : {OffsetAllocator::Search::fast, OffsetAllocator::Search::thorough}) {
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (take_from(i, bytes, search, block)) return true;
    }
  }
  return false;
}

void PinnedPool::State::put_back(const PinnedBlock& block) {
  assert(block.chunk < chunks.size() && chunks[block.chunk].base != 0);
  chunks[block.chunk].space.free(static_cast<RangeId>(block.node));
  ++returns;
}

void PinnedPool::State::set_pending(const PinnedBlock& block, EventHandle event, const PinnedPending::Lane& lane) {
  pending.add(block, event, lane);
  counts.used_bytes -= rounded(block);
  counts.requested_bytes -= block.bytes;
  counts.pending_bytes += rounded(block);
  --counts.live_blocks;
}

void PinnedPool::State::retire(std::uint64_t ticket) {
  const PinnedPending::Entry entry = pending.take(ticket);
  put_back(entry.block);
  if (entry.lane.of_stream) spare_events.push_back(entry.event);
  counts.pending_bytes -= rounded(entry.block);
}

void PinnedPool::State::end_use(PinnedPending::Entry& entry) {
  if (--entry.users == 0 && entry.complete) retire(entry.ticket);
}

PinnedPending::Entry* PinnedPool::State::claim(Lock& lock, std::uint64_t ticket, std::int64_t& timeout_ns) {
  PinnedPending::Entry* entry = nullptr;
  // An event of a caller may stand behind several blocks.
  const auto is_unclaimed = [&] {
    entry = pending.find(ticket);
    return entry == nullptr || std::find(waited_for.begin(), waited_for.end(), entry->event) == waited_for.end();
  };
  if (timeout_ns < 0) {
    meeting->waited.wait(lock, is_unclaimed);
  } else if (!is_unclaimed()) {
    const auto end = Clock::now() + std::chrono::nanoseconds(std::min(timeout_ns, kLongestWaitNs));
    if (!meeting->waited.wait_until(lock, end, is_unclaimed)) return nullptr;
    timeout_ns = std::max<std::int64_t>(std::chrono::nanoseconds(end - Clock::now()).count(), 0);
  }
  if (entry == nullptr) return nullptr;
  waited_for.push_back(entry->event);
  ++entry->users;
  return entry;
}

bool PinnedPool::State::look_at(Lock& lock, PinnedPending::Entry& entry) {
  ++entry.users;  // it stays where it is meanwhile
  lock.unlock();
  const DeviceCode code = device.query_event(entry.event);
  lock.lock();
  lost = lost || code == DeviceCode::lost;
  entry.complete = entry.complete || code == DeviceCode::ok;
  end_use(entry);
  return code == DeviceCode::ok;
}

Bytes PinnedPool::State::reclaim_lane(Lock& lock, const PinnedPending::Lane& lane) {
  Bytes taken_back = 0;
  while (PinnedPending::Entry* const first = pending.first_of(lane)) {
    const std::uint64_t ticket = first->ticket;
    const Bytes bytes = rounded(first->block);
    if (!look_at(lock, *first)) break;
    if (pending.find(ticket) != nullptr) break;  // another thread is still at it, and takes it back
    taken_back += bytes;
  }
  return taken_back;
}

Bytes PinnedPool::State::reclaim(Lock& lock) {
  Bytes taken_back = 0;
  PinnedPending::Lane lane;
  for (bool more = pending.next(nullptr, lane); more; more = pending.next(&lane, lane)) {
    taken_back += reclaim_lane(lock, lane);
  }
  return taken_back;
}

PinnedAllocation PinnedPool::State::refuse(Bytes need) {
  if (lost) return {.outcome = PinnedOutcome::lost};
  if (order(need)) return {.outcome = PinnedOutcome::wait_chunk, .arrivals = arrivals};
  if (need <= largest_ever() && !pending.empty()) {
    return {.outcome = PinnedOutcome::wait_block, .ticket = pending.oldest()};
  }
  for (Chunk& chunk : chunks) chunk.stays = false;  // the next request may try again
  return {.outcome = PinnedOutcome::exhausted,
          .missing_bytes = std::max<Bytes>(options.class_bytes, need - largest_free()),
          .ever = need <= largest_ever()};
}

bool PinnedPool::State::spare_event(EventHandle& event) {
  if (spare_events.empty()) return false;
  event = spare_events.back();
  spare_events.pop_back();
  return true;
}

/// One that this stream is done with, a new one, or one that any stream is done with.
DeviceCode PinnedPool::State::own_event(Lock& lock, StreamHandle stream, EventHandle& event) {
  if (spare_events.empty()) static_cast<void>(reclaim_lane(lock, PinnedPending::lane_of(stream)));
  if (spare_event(event)) return DeviceCode::ok;
  lock.unlock();
  const DeviceCode code = device.create_event(event);
  lock.lock();
  if (code != DeviceCode::no_resource) return code;
  static_cast<void>(reclaim(lock));
  return spare_event(event) ? DeviceCode::ok : code;
}

PinnedPool::PinnedPool(Device& device, PinnedPoolOptions options)
    : state_(std::make_unique<State>(device, std::move(options))) {
  assert(state_->options.bound_bytes > 0 && state_->options.class_bytes >= 64 &&
         (state_->options.class_bytes & (state_->options.class_bytes - 1)) == 0);
}

PinnedPool::~PinnedPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
    state_->meeting->changed.notify_all();
  }
  if (state_->thread.joinable()) state_->thread.join();
  while (!state_->pending.empty()) {
    const EventHandle event = state_->pending.find(state_->pending.oldest())->event;
    Device& device = state_->device;
    if (device.synchronize_event(event) != DeviceCode::ok && device.query_event(event) == DeviceCode::not_ready) {
      static_cast<void>(device.synchronize_device());  // the copy may still be at it
    }
    const PinnedPending::Entry entry = state_->pending.take(state_->pending.oldest());
    if (entry.lane.of_stream) give_back([&] { return device.destroy_event(event); });
  }
  state_->give_all_back();
}

PinnedAllocation PinnedPool::allocate(Bytes bytes) {
  assert(bytes > 0);
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (bytes > state.bound_bytes && !state.lost) {
    return {.missing_bytes = bytes - state.largest_free(), .ever = false};
  }
  const Bytes need = round_up(bytes, state.options.class_bytes);
  while (true) {
    PinnedAllocation answer{.outcome = PinnedOutcome::ok};
    if (!state.lost && state.take(bytes, answer.block)) return answer;
    const std::int64_t before = state.returns + state.arrivals;
    static_cast<void>(state.reclaim(lock));
    if (state.returns + state.arrivals != before) continue;  // others may have been faster, too
    answer = state.refuse(need);
    if (answer.outcome != PinnedOutcome::wait_chunk || !state.builds_here()) {
      state.counts.waits += answer.outcome == PinnedOutcome::wait_block || answer.outcome == PinnedOutcome::wait_chunk;
      return answer;
    }
    state.acquire(lock);
  }
}

void PinnedPool::free(const PinnedBlock& block) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.put_back(block);
  state.counts.used_bytes -= state.rounded(block);
  state.counts.requested_bytes -= block.bytes;
  --state.counts.live_blocks;
}

DeviceCode PinnedPool::free_after(const PinnedBlock& block, StreamHandle stream) {
  State& state = *state_;
  State::Lock lock(state.mutex);
  EventHandle event{};
  if (const DeviceCode code = state.own_event(lock, stream, event); code != DeviceCode::ok) return code;
  lock.unlock();
  const DeviceCode code = state.device.record_event(event, stream);
  lock.lock();
  if (code == DeviceCode::ok) {
    state.set_pending(block, event, PinnedPending::lane_of(stream));
  } else {
    state.spare_events.push_back(event);
  }
  return code;
}

void PinnedPool::free_after_event(const PinnedBlock& block, EventHandle event) {
  const std::lock_guard lock(state_->mutex);
  state_->set_pending(block, event, PinnedPending::lane_of(event));
}

bool PinnedPool::pending(EventHandle event) const {
  const std::lock_guard lock(state_->mutex);
  return state_->pending.has(PinnedPending::lane_of(event));
}

Bytes PinnedPool::reclaim() {
  State::Lock lock(state_->mutex);
  return state_->reclaim(lock);
}

DeviceCode PinnedPool::wait_for_block(const PinnedAllocation& answer, std::int64_t timeout_ns) {
  State& state = *state_;
  State::Lock lock(state.mutex);
  PinnedPending::Entry* const entry = state.claim(lock, answer.ticket, timeout_ns);
  if (entry == nullptr) return state.pending.find(answer.ticket) == nullptr ? DeviceCode::ok : DeviceCode::not_ready;
  const EventHandle event = entry->event;
  lock.unlock();
  // What failed is done with the block as well, unless the device says that it is still at it.
  const DeviceCode code = state.device.synchronize_event(event, timeout_ns);
  const bool complete = code == DeviceCode::ok || state.device.query_event(event) == DeviceCode::ok;
  lock.lock();
  std::erase(state.waited_for, event);
  state.meeting->waited.notify_all();
  state.lost = state.lost || code == DeviceCode::lost;
  entry->complete = entry->complete || complete;
  state.end_use(*entry);
  return code;
}

bool PinnedPool::wait_for_chunk(const PinnedAllocation& answer, std::int64_t timeout_ns) {
  State& state = *state_;
  State::Lock lock(state.mutex);
  const auto arrived = [&] { return state.arrivals != answer.arrivals || !state.building(); };
  if (!arrived() && state.builds_here()) state.acquire(lock);  // the answer is older than the fork
  if (timeout_ns >= 0)
    return state.meeting->changed.wait_for(lock, std::chrono::nanoseconds(std::min(timeout_ns, kLongestWaitNs)),
                                           arrived);
  state.meeting->changed.wait(lock, arrived);
  return true;
}

void PinnedPool::wait_until_built() {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  while (state.building()) {
    if (state.builds_here()) {
      state.acquire(lock);
    } else {
      state.meeting->changed.wait(lock);
    }
  }
}

PinnedPoolStatistics PinnedPool::statistics() const {
  const std::lock_guard lock(state_->mutex);
  PinnedPoolStatistics all = state_->counts;
  all.bound_bytes = state_->bound_bytes;
  all.held_bytes = state_->held_bytes;
  all.largest_free_bytes = state_->largest_free();
  for (const PinnedChunk& chunk : state_->chunks) all.chunks += chunk.base != 0;
  return all;
}

}  // namespace tidemark::allocator
