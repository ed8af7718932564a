#include "allocator/pinned_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/give_back.h"
#include "allocator/offset_allocator.h"
#include "allocator/pinned_pool_pending.h"

namespace tidemark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLongestWaitNs = 1'000'000'000'000'000'000;  ///< 30 years; more would overflow the clock

struct Chunk {
  Address base = 0;  ///< 0: given back, the place in the list is free
  OffsetAllocator space{0};
  bool stays = false;  ///< the device refused to take it back: not offered again while the same request looks for room

  [[nodiscard]] bool can_leave() const { return base != 0 && !stays && space.used_bytes() == 0; }
};

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

struct PinnedPool::State {
  State(Device& the_device, PinnedPoolOptions the_options);

  // All of these: REQUIRES mutex is held.
  [[nodiscard]] bool take(Bytes bytes, PinnedBlock& block);
  [[nodiscard]] bool take_from(std::size_t index, Bytes bytes, OffsetAllocator::Search search, PinnedBlock& block);
  void put_back(const PinnedBlock& block);
  void set_pending(const PinnedBlock& block, EventHandle event, const PinnedPending::Lane& lane);
  void retire(std::uint64_t ticket);
  [[nodiscard]] Bytes rounded(const PinnedBlock& block) const;
  [[nodiscard]] Bytes largest_free() const;
  /// What to answer when nothing fits. Orders a chunk if there may be one.
  [[nodiscard]] PinnedAllocation refuse(Bytes need);
  [[nodiscard]] bool order(Bytes need);
  [[nodiscard]] bool make_room(Bytes need);
  void give_back_free_chunks(Bytes need);
  [[nodiscard]] Bytes room() const { return bound_bytes - held_bytes - in_flight_bytes - ordered_bytes; }
  [[nodiscard]] Bytes largest_ever() const { return std::min({bound_bytes, largest_bytes, refused_bytes - 1}); }
  [[nodiscard]] bool building() const { return !ordered.empty() || in_flight_bytes > 0; }

  using Lock = std::unique_lock<std::mutex>;
  // These unlock while they ask the device. REQUIRES: the mutex is held by `lock`.
  /// Asks about an entry; taken back if it is complete and nobody else is at it. False: not complete.
  [[nodiscard]] bool look_at(Lock& lock, PinnedPending::Entry& entry);
  /// Takes back what is complete; the number of bytes.
  Bytes reclaim(Lock& lock);
  Bytes reclaim_lane(Lock& lock, const PinnedPending::Lane& lane);
  [[nodiscard]] DeviceCode own_event(Lock& lock, StreamHandle stream, EventHandle& event);
  [[nodiscard]] bool spare_event(EventHandle& event);
  /// Until nobody else waits for the entry's event. The entry, now this caller's to wait for within the time left;
  /// nullptr: it is gone, or the time is over.
  [[nodiscard]] PinnedPending::Entry* claim(Lock& lock, std::uint64_t ticket, std::int64_t& timeout_ns);
  /// Ends a use that began with ++users: takes the entry back if it was the last and the work is done.
  void let_go(PinnedPending::Entry& entry);

  /// Carries out the first order: gives back what is to go, asks the device, reports before the answer counts. Unlocks
  /// while it does. REQUIRES: orders.
  void acquire(std::unique_lock<std::mutex>& lock);
  /// Without the mutex: gives chunks back; those that the device refused stay in the list. The bytes that are gone.
  [[nodiscard]] Bytes send_off(std::vector<Chunk>& going);
  /// Asks the device for a chunk. REQUIRES: not locked; afterwards it is.
  void take_in(Lock& lock, Bytes bytes, Bytes gone_bytes);
  void add_chunk(Chunk chunk);
  /// Those that the device refused to take back are chunks again, and what they were to make way for is not ordered.
  void keep(std::vector<Chunk> refused);
  void note_refusal(DeviceCode code, Bytes bytes, Bytes gone_bytes);
  void note_time();
  void report(PinnedReport::Kind kind, const std::string& text);
  void report_facts(const PinnedFacts& facts);
  void report_refusal(DeviceCode code, Bytes bytes, Bytes gone_bytes);
  void run();
  void give_all_back();

  Device& device;
  PinnedPoolOptions options;
  const Bytes largest_bytes;  ///< of one chunk, by the device
  const Clock::time_point born = Clock::now();

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<Chunk> chunks;
  PinnedPending pending;
  std::vector<EventHandle> spare_events;
  std::vector<EventHandle> waited_for;  ///< that somebody synchronises with now: one at a time for each
  std::condition_variable waited;       ///< one of these waits is over
  std::deque<Bytes> ordered;            ///< chunks to ask the device for
  std::vector<Chunk> leaving;           ///< to give back before the next one comes
  Bytes refused_bytes = INT64_MAX;      ///< pieces from this size on were refused although others made way for them
  Bytes bound_bytes = 0, held_bytes = 0, in_flight_bytes = 0, ordered_bytes = 0;
  std::int64_t arrivals = 0;  ///< answers of the device
  std::int64_t returns = 0;   ///< blocks put back
  bool lost = false, ending = false;
  PinnedPoolStatistics counts;  ///< what is counted as it happens

  std::mutex report_mutex;
  std::array<bool, 5> reported = {};  ///< by kind
  std::thread thread;                 ///< last: uses all of the above
};

PinnedPool::State::State(Device& the_device, PinnedPoolOptions the_options)
    : device(the_device),
      options(std::move(the_options)),
      largest_bytes(device.traits().largest_pinned_bytes > 0 ? device.traits().largest_pinned_bytes : INT64_MAX),
      bound_bytes(options.bound_bytes / options.class_bytes * options.class_bytes) {
  const Bytes limit = std::min(bound_bytes, largest_bytes) / options.class_bytes * options.class_bytes;
  options.chunk_bytes = std::min(round_up(options.chunk_bytes, options.class_bytes), limit);
  const Bytes initial = options.initial_bytes < 0 ? bound_bytes : std::min(options.initial_bytes, bound_bytes);
  while (ordered_bytes < initial && options.chunk_bytes > 0) {
    ordered.push_back(std::min(options.chunk_bytes, bound_bytes - ordered_bytes));
    ordered_bytes += ordered.back();
  }
  if (options.background) thread = std::thread([this] { run(); });
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

void PinnedPool::State::let_go(PinnedPending::Entry& entry) {
  if (--entry.users == 0 && entry.complete) retire(entry.ticket);
}

PinnedPending::Entry* PinnedPool::State::claim(Lock& lock, std::uint64_t ticket, std::int64_t& timeout_ns) {
  PinnedPending::Entry* entry = nullptr;
  // An event of a caller may stand behind several blocks.
  const auto nobody_waits = [&] {
    entry = pending.find(ticket);
    return entry == nullptr || std::find(waited_for.begin(), waited_for.end(), entry->event) == waited_for.end();
  };
  if (timeout_ns < 0) {
    waited.wait(lock, nobody_waits);
  } else if (!nobody_waits()) {
    const auto end = Clock::now() + std::chrono::nanoseconds(std::min(timeout_ns, kLongestWaitNs));
    if (!waited.wait_until(lock, end, nobody_waits)) return nullptr;
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
  let_go(entry);
  return code == DeviceCode::ok;
}

Bytes PinnedPool::State::reclaim_lane(Lock& lock, const PinnedPending::Lane& lane) {
  Bytes taken_back = 0;
  while (PinnedPending::Entry* const first = pending.first_of(lane)) {
    const std::uint64_t ticket = first->ticket;
    const Bytes bytes = rounded(first->block);
    if (!look_at(lock, *first)) break;
    if (pending.find(ticket) != nullptr) break;  // somebody else is still at it, and takes it back
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

/// Drops orders not begun and chunks without blocks, as far as needed. False, and nothing changed: that is not enough.
bool PinnedPool::State::make_room(Bytes need) {
  Bytes possible = room() + ordered_bytes;
  for (const Chunk& chunk : chunks) possible += chunk.can_leave() ? chunk.space.capacity() : 0;
  if (possible < need) return false;
  while (room() < need && !ordered.empty()) {
    ordered_bytes -= ordered.back();
    ordered.pop_back();
  }
  give_back_free_chunks(need);
  return true;
}

void PinnedPool::State::give_back_free_chunks(Bytes need) {
  for (Chunk& chunk : chunks) {
    if (room() >= need) return;
    if (!chunk.can_leave()) continue;
    held_bytes -= chunk.space.capacity();
    leaving.push_back(std::exchange(chunk, {}));
  }
}

/// True: a chunk that can hold the block is on its way.
bool PinnedPool::State::order(Bytes need) {
  const auto holds = [need](Bytes bytes) { return bytes >= need; };
  if (in_flight_bytes >= need || std::any_of(ordered.begin(), ordered.end(), holds)) return true;
  if (need > largest_ever()) return false;
  if (room() < need && !make_room(need)) {
    return in_flight_bytes > 0;  // that one may be given back again
  }
  ordered.push_back(std::max(need, std::min({options.chunk_bytes, room(), refused_bytes - options.class_bytes})));
  ordered_bytes += ordered.back();
  changed.notify_all();
  return true;
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

void PinnedPool::State::add_chunk(Chunk chunk) {
  const auto hole = std::find_if(chunks.begin(), chunks.end(), [](const Chunk& old) { return old.base == 0; });
  held_bytes += chunk.space.capacity();
  if (hole == chunks.end()) {
    chunks.push_back(std::move(chunk));
  } else {
    *hole = std::move(chunk);
  }
}

void PinnedPool::State::keep(std::vector<Chunk> refused) {
  for (Chunk& chunk : refused) {
    chunk.stays = true;
    add_chunk(std::move(chunk));
  }
  ordered.clear();
  ordered_bytes = 0;
}

/// What the device refuses once it is not asked for again. Chunks that had made way come back on demand: only the large
/// piece was refused, not them.
void PinnedPool::State::note_refusal(DeviceCode code, Bytes bytes, Bytes gone_bytes) {
  ++counts.refusals;
  lost = lost || code == DeviceCode::lost;
  if (gone_bytes > 0) refused_bytes = std::min(refused_bytes, bytes);
  bound_bytes = held_bytes + gone_bytes;
  ordered.clear();
  ordered_bytes = 0;
}

void PinnedPool::State::note_time() {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - born).count();
  if (counts.first_chunk_ns < 0 && held_bytes > 0) counts.first_chunk_ns = ns;
  if (counts.all_chunks_ns < 0 && !building()) counts.all_chunks_ns = ns;
}

Bytes PinnedPool::State::send_off(std::vector<Chunk>& going) {
  Bytes gone_bytes = 0;
  std::erase_if(going, [&](const Chunk& chunk) {
    if (give_back([&] { return device.free_pinned(chunk.base); }) != DeviceCode::ok) return false;
    gone_bytes += chunk.space.capacity();
    return true;
  });
  return gone_bytes;
}

void PinnedPool::State::take_in(Lock& lock, Bytes bytes, Bytes gone_bytes) {
  Address base = 0;
  const DeviceCode code = device.allocate_pinned(bytes, base);
  if (code == DeviceCode::ok) {
    report_facts(device.pinned_facts(base));
  } else {
    report_refusal(code, bytes, gone_bytes);
  }
  lock.lock();
  if (code == DeviceCode::ok) {
    add_chunk({.base = base, .space = OffsetAllocator(bytes, options.class_bytes)});
  } else {
    note_refusal(code, bytes, gone_bytes);
  }
}

void PinnedPool::State::acquire(std::unique_lock<std::mutex>& lock) {
  assert(!ordered.empty());
  const Bytes bytes = ordered.front();
  ordered.pop_front();
  ordered_bytes -= bytes;
  in_flight_bytes += bytes;
  std::vector<Chunk> going = std::exchange(leaving, {});
  lock.unlock();
  const Bytes gone_bytes = send_off(going);
  if (going.empty()) {
    take_in(lock, bytes, gone_bytes);
  } else {
    lock.lock();
    keep(std::move(going));  // a new one as well would be more than the bound
  }
  in_flight_bytes -= bytes;
  ++arrivals;
  note_time();
  changed.notify_all();
}

void PinnedPool::State::report(PinnedReport::Kind kind, const std::string& text) {
  const std::lock_guard lock(report_mutex);
  bool& done = reported[static_cast<std::size_t>(kind)];
  if (!done && options.report) options.report({.kind = kind, .text = text});
  done = true;
}

/// REQUIRES: called by the thread that was refused.
void PinnedPool::State::report_refusal(DeviceCode code, Bytes bytes, Bytes gone_bytes) {
  const std::string refusal = device.last_error();
  std::unique_lock lock(mutex);
  const Bytes held = held_bytes + gone_bytes;
  lock.unlock();
  report(PinnedReport::Kind::refused,
         fmt::format("{} more of pinned memory refused ({}: {}); going on with {} instead of {}", format_bytes(bytes),
                     name_of(code), refusal, format_bytes(held), format_bytes(options.bound_bytes)));
}

void PinnedPool::State::report_facts(const PinnedFacts& facts) {
  const auto tell = [&](bool good, PinnedReport::Kind kind, const char* consequence) {
    if (!good) report(kind, fmt::format("pinned memory: {} ({})", consequence, facts.explanation));
  };
  tell(facts.registered, PinnedReport::Kind::pageable, "not registered, copies block and nothing overlaps");
  tell(facts.numa_bound, PinnedReport::Kind::numa_unbound, "not on the device's NUMA node, copies may be slow");
  tell(facts.huge_pages, PinnedReport::Kind::no_huge_pages, "small pages, copies and registration are slower");
  tell(facts.locked, PinnedReport::Kind::not_locked, "not locked, the system may swap it out");
}

void PinnedPool::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return ending || !ordered.empty(); });
    if (ending) return;
    acquire(lock);
  }
}

/// At the end. Takes no memory for its own books.
void PinnedPool::State::give_all_back() {
  for (const EventHandle event : spare_events) give_back([&] { return device.destroy_event(event); });
  for (const std::vector<Chunk>* list : {&chunks, &leaving}) {
    for (const Chunk& chunk : *list) {
      if (chunk.base != 0) give_back([&] { return device.free_pinned(chunk.base); });
    }
  }
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
    state_->changed.notify_all();
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
    const bool can_acquire = answer.outcome == PinnedOutcome::wait_chunk && !state.ordered.empty();
    if (!can_acquire || state.options.background) {
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
  state.waited.notify_all();
  state.lost = state.lost || code == DeviceCode::lost;
  entry->complete = entry->complete || complete;
  state.let_go(*entry);
  return code;
}

bool PinnedPool::wait_for_chunk(const PinnedAllocation& answer, std::int64_t timeout_ns) {
  std::unique_lock lock(state_->mutex);
  const auto arrived = [&] { return state_->arrivals != answer.arrivals || !state_->building(); };
  if (timeout_ns >= 0)
    return state_->changed.wait_for(lock, std::chrono::nanoseconds(std::min(timeout_ns, kLongestWaitNs)), arrived);
  state_->changed.wait(lock, arrived);
  return true;
}

void PinnedPool::wait_until_built() {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  while (state.building()) {
    if (!state.options.background && !state.ordered.empty()) {
      state.acquire(lock);
    } else {
      state.changed.wait(lock);
    }
  }
}

PinnedPoolStatistics PinnedPool::statistics() const {
  const std::lock_guard lock(state_->mutex);
  PinnedPoolStatistics all = state_->counts;
  all.bound_bytes = state_->bound_bytes;
  all.held_bytes = state_->held_bytes;
  all.largest_free_bytes = state_->largest_free();
  for (const Chunk& chunk : state_->chunks) all.chunks += chunk.base != 0;
  return all;
}

}  // namespace tidemark
