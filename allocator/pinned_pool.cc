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

#include "allocator/offset_allocator.h"

namespace tidemark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLongestWaitNs = 1'000'000'000'000'000'000;  ///< 30 years; more would overflow the clock

struct Chunk {
  Address base = 0;  ///< 0: given back, the place in the list is free
  OffsetAllocator space{0};

  [[nodiscard]] bool wholly_free() const { return base != 0 && space.used_bytes() == 0; }
};

/// A block whose last use may still be in flight.
struct PendingBlock {
  PinnedBlock block;
  EventHandle event{};
  bool own_event = false;
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
  void set_pending(const PinnedBlock& block, EventHandle event, bool own_event);
  Bytes reclaim();
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
  [[nodiscard]] DeviceCode own_event(EventHandle& event);

  /// Carries out the first order: gives back what is to go, asks the device, reports before the answer counts. Unlocks
  /// while it does. REQUIRES: orders.
  void acquire(std::unique_lock<std::mutex>& lock);
  void add_chunk(Address base, Bytes bytes);
  void note_refusal(DeviceCode code, Bytes bytes, Bytes gone_bytes);
  void note_time();
  void report(PinnedReport::Kind kind, const std::string& text);
  void report_facts(const PinnedFacts& facts);
  void report_refusal(DeviceCode code, Bytes bytes, Bytes gone_bytes);
  void run();

  Device& device;
  PinnedPoolOptions options;
  const Bytes largest_bytes;  ///< of one chunk, by the device
  const Clock::time_point born = Clock::now();

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<Chunk> chunks;
  std::deque<PendingBlock> pending;
  std::vector<EventHandle> spare_events;
  std::deque<Bytes> ordered;        ///< chunks to ask the device for
  std::vector<Address> leaving;     ///< chunks to give back before the next one
  Bytes leaving_bytes = 0;          ///< of those
  Bytes refused_bytes = INT64_MAX;  ///< pieces from this size on were refused although others made way for them
  Bytes bound_bytes = 0, held_bytes = 0, in_flight_bytes = 0, ordered_bytes = 0;
  std::int64_t arrivals = 0;  ///< answers of the device
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
}

void PinnedPool::State::set_pending(const PinnedBlock& block, EventHandle event, bool own_event) {
  pending.push_back({.block = block, .event = event, .own_event = own_event});
  counts.used_bytes -= rounded(block);
  counts.requested_bytes -= block.bytes;
  counts.pending_bytes += rounded(block);
  --counts.live_blocks;
}

Bytes PinnedPool::State::reclaim() {
  Bytes taken_back = 0;
  const auto done = [&](const PendingBlock& waiting) {
    const DeviceCode code = device.query_event(waiting.event);
    lost = lost || code == DeviceCode::lost;
    if (code != DeviceCode::ok) return false;
    put_back(waiting.block);
    if (waiting.own_event) spare_events.push_back(waiting.event);
    taken_back += rounded(waiting.block);
    return true;
  };
  pending.erase(std::remove_if(pending.begin(), pending.end(), done), pending.end());
  counts.pending_bytes -= taken_back;
  return taken_back;
}

/// Drops orders not begun and chunks without blocks, as far as needed. False, and nothing changed: that is not enough.
bool PinnedPool::State::make_room(Bytes need) {
  Bytes possible = room() + ordered_bytes;
  for (const Chunk& chunk : chunks) possible += chunk.wholly_free() ? chunk.space.capacity() : 0;
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
    if (!chunk.wholly_free()) continue;
    leaving.push_back(chunk.base);
    leaving_bytes += chunk.space.capacity();
    held_bytes -= chunk.space.capacity();
    chunk = {};
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
    return {.outcome = PinnedOutcome::wait_event, .event = pending.front().event};
  }
  return {.outcome = PinnedOutcome::exhausted,
          .missing_bytes = std::max<Bytes>(options.class_bytes, need - largest_free()),
          .ever = need <= largest_ever()};
}

DeviceCode PinnedPool::State::own_event(EventHandle& event) {
  if (spare_events.empty()) reclaim();
  if (spare_events.empty()) return device.create_event(event);
  event = spare_events.back();
  spare_events.pop_back();
  return DeviceCode::ok;
}

void PinnedPool::State::add_chunk(Address base, Bytes bytes) {
  const auto hole = std::find_if(chunks.begin(), chunks.end(), [](const Chunk& chunk) { return chunk.base == 0; });
  Chunk made{.base = base, .space = OffsetAllocator(bytes, options.class_bytes)};
  if (hole == chunks.end()) {
    chunks.push_back(std::move(made));
  } else {
    *hole = std::move(made);
  }
  held_bytes += bytes;
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

void PinnedPool::State::acquire(std::unique_lock<std::mutex>& lock) {
  assert(!ordered.empty());
  const Bytes bytes = ordered.front();
  ordered.pop_front();
  ordered_bytes -= bytes;
  in_flight_bytes += bytes;
  const std::vector<Address> going = std::exchange(leaving, {});
  const Bytes gone_bytes = std::exchange(leaving_bytes, 0);
  lock.unlock();
  for (const Address base : going) static_cast<void>(device.free_pinned(base));
  Address base = 0;
  const DeviceCode code = device.allocate_pinned(bytes, base);
  if (code == DeviceCode::ok) {
    report_facts(device.pinned_facts(base));
  } else {
    report_refusal(code, bytes, gone_bytes);
  }
  lock.lock();
  in_flight_bytes -= bytes;
  ++arrivals;
  if (code == DeviceCode::ok) {
    add_chunk(base, bytes);
  } else {
    note_refusal(code, bytes, gone_bytes);
  }
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
  for (const PendingBlock& waiting : state_->pending) {
    Device& device = state_->device;
    if (device.synchronize_event(waiting.event) != DeviceCode::ok &&
        device.query_event(waiting.event) == DeviceCode::not_ready) {
      static_cast<void>(device.synchronize_device());  // the copy may still be at it
    }
    if (waiting.own_event) state_->spare_events.push_back(waiting.event);
  }
  for (const EventHandle event : state_->spare_events) static_cast<void>(state_->device.destroy_event(event));
  for (const Chunk& chunk : state_->chunks) {
    if (chunk.base != 0) state_->leaving.push_back(chunk.base);
  }
  for (const Address base : state_->leaving) static_cast<void>(state_->device.free_pinned(base));
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
    if (state.reclaim() > 0) continue;
    answer = state.refuse(need);
    const bool can_acquire = answer.outcome == PinnedOutcome::wait_chunk && !state.ordered.empty();
    if (!can_acquire || state.options.background) {
      state.counts.waits += answer.outcome == PinnedOutcome::wait_event || answer.outcome == PinnedOutcome::wait_chunk;
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
  const std::lock_guard lock(state.mutex);
  EventHandle event{};
  if (const DeviceCode code = state.own_event(event); code != DeviceCode::ok) return code;
  if (const DeviceCode code = state.device.record_event(event, stream); code != DeviceCode::ok) {
    state.spare_events.push_back(event);
    return code;
  }
  state.set_pending(block, event, true);
  return DeviceCode::ok;
}

void PinnedPool::free_after_event(const PinnedBlock& block, EventHandle event) {
  const std::lock_guard lock(state_->mutex);
  state_->set_pending(block, event, false);
}

bool PinnedPool::pending(EventHandle event) const {
  const std::lock_guard lock(state_->mutex);
  const auto is_it = [event](const PendingBlock& waiting) { return waiting.event == event; };
  return std::any_of(state_->pending.begin(), state_->pending.end(), is_it);
}

Bytes PinnedPool::reclaim() {
  const std::lock_guard lock(state_->mutex);
  return state_->reclaim();
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
