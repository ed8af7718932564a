#pragma once
// What a pinned pool knows, and how its parts work on it: pinned_pool.cc hands blocks out and reclaims them,
// pinned_pool_build.cc gets chunks from the device and releases them.
//
// Threads: one mutex over everything but the reports; no call of the device is made with it held. A fork takes it, so
// that the child finds the books whole; what threads wait on is replaced there, because the parent's threads are in it.

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "allocator/offset_allocator.h"
#include "allocator/pinned_pool.h"
#include "allocator/pinned_pool_pending.h"
#include "device/fork_handlers.h"

namespace tidemark::allocator {

struct PinnedChunk {
  Address base = 0;  ///< 0: released, the place in the list is free
  OffsetAllocator space{0};
  bool stays = false;  ///< the device refused to take it back: not offered again while the same request looks for room

  [[nodiscard]] bool can_leave() const { return base != 0 && !stays && space.used_bytes() == 0; }
};

struct PinnedPool::State {
  using Chunk = PinnedChunk;
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

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
  /// There is an order, and it is for the calling thread to carry out.
  [[nodiscard]] bool builds_here() const { return !options.background && !ordered.empty(); }
  void go_on_in_child();
  [[nodiscard]] ForkSteps fork_steps();

  // These unlock while they ask the device. REQUIRES: the mutex is held by `lock`.
  /// Asks about an entry; reclaimed if it is complete and no other thread is at it. False: not complete.
  [[nodiscard]] bool look_at(Lock& lock, PinnedPending::Entry& entry);
  /// Reclaims complete blocks; the number of bytes.
  Bytes reclaim(Lock& lock);
  Bytes reclaim_lane(Lock& lock, const PinnedPending::Lane& lane);
  [[nodiscard]] DeviceCode own_event(Lock& lock, StreamHandle stream, EventHandle& event);
  [[nodiscard]] bool spare_event(EventHandle& event);
  /// Until no other thread waits for the entry's event. The entry, now this caller's to wait for within the time left;
  /// nullptr: it is gone, or the time is over.
  [[nodiscard]] PinnedPending::Entry* claim(Lock& lock, std::uint64_t ticket, std::int64_t& timeout_ns);
  /// Ends a use that began with ++users: reclaims the entry if it was the last and the work is done.
  void end_use(PinnedPending::Entry& entry);

  /// Carries out the first order: releases what is to go, asks the device, reports before the answer counts. Unlocks
  /// while it does. REQUIRES: orders.
  void acquire(std::unique_lock<std::mutex>& lock);
  /// Without the mutex: releases chunks; those that the device refused remain in the list. The bytes released.
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

  /// What threads of one process meet in.
  struct Meeting {
    std::condition_variable changed;  ///< orders, arrivals, or the pool ends
    std::condition_variable waited;   ///< a wait for one of `waited_for` is over
    std::mutex reporting;             ///< held while `options.report` runs
  };

  Device& device;
  PinnedPoolOptions options;
  const Bytes largest_bytes;  ///< of one chunk, by the device
  const Clock::time_point born = Clock::now();

  mutable std::mutex mutex;
  std::unique_ptr<Meeting> meeting = std::make_unique<Meeting>();
  std::vector<Chunk> chunks;
  PinnedPending pending;
  std::vector<EventHandle> spare_events;
  std::vector<EventHandle> waited_for;  ///< that a thread synchronises with now: one at a time for each
  std::deque<Bytes> ordered;            ///< chunks to ask the device for
  std::vector<Chunk> leaving;           ///< to release before the next one comes
  Bytes refused_bytes = INT64_MAX;      ///< pieces from this size on were refused although others made way for them
  Bytes bound_bytes = 0, held_bytes = 0, in_flight_bytes = 0, ordered_bytes = 0;
  std::int64_t arrivals = 0;  ///< answers of the device
  std::int64_t returns = 0;   ///< blocks put back
  bool lost = false, ending = false;
  PinnedPoolStatistics counts;  ///< what is counted as it happens

  std::array<bool, 5> reported = {};  ///< by kind; under meeting->reporting
  std::thread thread;                 ///< uses all of the above

  const ForkHandlers at_fork{ForkLevel::allocator, fork_steps()};
};

}  // namespace tidemark::allocator
