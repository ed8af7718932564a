// Chunks of a pinned pool: which to ask the device for, how they arrive, what is said where they do not, and the way
// back.

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "allocator/give_back.h"
#include "allocator/pinned_pool_state.h"
#include "device/process_binding.h"

namespace tidemark::allocator {

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
  meeting->changed.notify_all();
  return true;
}

void PinnedPool::State::add_chunk(PinnedChunk chunk) {
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
  meeting->changed.notify_all();
}

void PinnedPool::State::report(PinnedReport::Kind kind, const std::string& text) {
  const std::lock_guard lock(meeting->reporting);
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
  begin_copy_thread("tidemark-pinned", device.traits().numa_node);
  std::unique_lock lock(mutex);
  while (true) {
    meeting->changed.wait(lock, [this] { return ending || !ordered.empty(); });
    if (ending) return;
    acquire(lock);
  }
}

/// What other threads had under way is lost with them: chunks that they were getting or giving back stay with the
/// device. `reporting` is not taken around a fork, since a report may wait for what the forking thread holds.
void PinnedPool::State::go_on_in_child() {
  abandon(std::exchange(meeting, std::make_unique<Meeting>()));
  if (thread.joinable()) abandon(std::move(thread));
  options.background = false;
  in_flight_bytes = 0;
  waited_for.clear();
  pending.forget_users();
}

ForkSteps PinnedPool::State::fork_steps() {
  return {.before_fork = [this] { mutex.lock(); },
          .after_fork_in_parent = [this] { mutex.unlock(); },
          .after_fork_in_child =
              [this] {
                go_on_in_child();
                mutex.unlock();
              }};
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

}  // namespace tidemark::allocator
