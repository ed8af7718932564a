#pragma once
// Pinned host memory for swapped storages, without power-of-two rounding and without waiting for all of it.
//
// Why this way. Getting pinned memory is slow (pages are touched, drivers register them under a lock), so a thread of
// the pool asks the device for chunks one by one and the first chunk serves at once. Inside a chunk an offset allocator
// (allocator/offset_allocator.h) hands out multiples of class_bytes: 129.5 MiB cost 129.5 MiB. A block above
// chunk_bytes gets a chunk of its own, which serves others later.
//
// Freed under a copy. The pool never hands a block out again before the copies that use it are done: free_after()
// records an event of the pool behind everything submitted to a stream so far, free_after_event() takes the caller's.
// Such a block is *pending* until the event is complete; pending blocks are reclaimed during allocate(), free_after(),
// wait_for_block() and reclaim(). No stream waits. Who has to wait for one holds its ticket: events of the pool
// are recorded again for other blocks, a ticket is one block's for ever.
//
// Never more than asked, never a surprise. The pool holds at most bound_bytes. What cannot be served now comes back as
// an outcome that says what to wait for: back-pressure instead of an out-of-memory. If the device refuses a chunk, the
// bound shrinks to what there is (or was, if chunks had made way for it), that is reported once, and the pool goes on
// with it.
//
// Cost: one mutex, O(log n) in the number of pending blocks, one attempt per chunk (a handful). No call of the device
// is made with the mutex held. Looking for what is complete asks about the first block of each stream (and of each
// event of a caller), not about all. allocate() and free never call into memory allocation of the device, except with
// background = false.
// Threads: all functions from any thread. The device must outlive the pool. `report` is called from the pool's thread
// and from callers of allocate(), never two at a time, and must not call the pool.
//
// Forks. The child has the pool with all its blocks, in pages of its own where the device copies them (`host`), but not
// the pool's thread: it goes on as with background = false. Blocks that other threads of the parent hold remain
// taken, and a chunk that one of them was getting or releasing at that moment is the device's until that one ends. A
// fork waits for the mutex alone.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/bytes.h"
#include "device/device.h"

namespace tidemark::allocator {

/// A fact about the pool to be reported; `text` is for people.
struct PinnedReport {
  enum class Kind : std::uint8_t {
    refused,        ///< the device gave no more: the bound is now what it holds
    pageable,       ///< not registered: copies block and nothing overlaps
    numa_unbound,   ///< not on the device's node: copies may run at half speed
    no_huge_pages,  ///< small pages: registering and copying are slower
    not_locked,     ///< could be swapped out by the system
  };
  Kind kind = Kind::refused;
  std::string text;
};
[[nodiscard]] const char* name_of(PinnedReport::Kind kind);

struct PinnedPoolOptions {
  Bytes bound_bytes = 0;           ///< never held more than this; > 0
  Bytes initial_bytes = -1;        ///< built up without being asked; -1: bound_bytes. The rest comes on demand
  Bytes chunk_bytes = 512 * kMiB;  ///< cut down to bound_bytes and traits().largest_pinned_bytes
  Bytes class_bytes = 4 * kKiB;    ///< blocks are multiples of this; a power of two, 64 B or more
  bool background = true;          ///< false: chunks are acquired inside allocate(), for reproducible runs on `sim`
  std::function<void(const PinnedReport&)> report;  ///< each kind once; empty: no reports
};

/// A piece of pinned memory; belongs to whom it was handed out until one of the free functions.
struct PinnedBlock {
  Address address = 0;      ///< 0: none
  Bytes bytes = 0;          ///< as asked for
  std::uint32_t chunk = 0;  ///< the pool's own
  std::uint32_t node = 0;   ///< the pool's own
};

enum class PinnedOutcome : std::uint8_t {
  ok,
  wait_block,  ///< back-pressure: a pending block is in the way; wait_for_block(), then ask again
  wait_chunk,  ///< another thread is getting more memory: wait_for_chunk(), then ask again
  exhausted,   ///< not before a block is freed: `missing_bytes` more bytes in one piece are needed
  lost,        ///< the device is lost
};

struct PinnedAllocation {
  PinnedOutcome outcome = PinnedOutcome::exhausted;
  PinnedBlock block;          ///< ok
  std::uint64_t ticket = 0;   ///< wait_block: the oldest pending, for wait_for_block()
  std::int64_t arrivals = 0;  ///< wait_chunk: for wait_for_chunk()
  Bytes missing_bytes = 0;    ///< exhausted: asked for less the largest free piece
  bool ever = true;  ///< exhausted: could the empty pool serve it? false: larger than the bound or the device allows
};

struct PinnedPoolStatistics {
  Bytes bound_bytes = 0;         ///< as it is now: refusals shrink it
  Bytes held_bytes = 0;          ///< chunks
  Bytes used_bytes = 0;          ///< handed out, rounded to classes
  Bytes requested_bytes = 0;     ///< handed out, as asked for
  Bytes pending_bytes = 0;       ///< freed, event not complete
  Bytes peak_used_bytes = 0;     ///< of used + pending
  Bytes largest_free_bytes = 0;  ///< largest piece that can be had now, or up to 1/32 less
  std::int64_t chunks = 0;
  std::int64_t live_blocks = 0;
  std::int64_t allocations = 0;      ///< served
  std::int64_t waits = 0;            ///< answered with wait_block or wait_chunk
  std::int64_t refusals = 0;         ///< chunks the device refused
  std::int64_t first_chunk_ns = -1;  ///< from the construction to the first chunk, monotonic clock; -1: none yet
  std::int64_t all_chunks_ns = -1;   ///< to the last chunk of initial_bytes
};

class PinnedPool {
 public:
  PinnedPool(Device& device, PinnedPoolOptions options);
  /// Ends the pool's thread, waits for pending events, releases every chunk. Blocks still out become invalid.
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// REQUIRES: bytes > 0. Never blocks on the device (background) and never waits for an event.
  [[nodiscard]] PinnedAllocation allocate(Bytes bytes);

  /// No work that uses the block is in flight.
  void free(const PinnedBlock& block);
  /// The block is free once everything submitted to `stream` so far is done. The code is the device's, if it has no
  /// event left (no_resource) or is lost: the block then is still the caller's.
  [[nodiscard]] DeviceCode free_after(const PinnedBlock& block, StreamHandle stream);
  /// The block is free once `event`, as recorded now, is complete. The caller keeps the event and neither records it
  /// again on another stream nor destroys it before the block is reclaimed (pending() tells).
  void free_after_event(const PinnedBlock& block, EventHandle event);
  /// Whether a block freed behind this event is still pending.
  [[nodiscard]] bool pending(EventHandle event) const;

  /// Reclaims complete blocks; the number of bytes.
  Bytes reclaim();
  /// Blocks until the block of `answer` is free again, by any thread's doing; then ask again. timeout_ns < 0: for ever.
  /// ok; not_ready: the timeout passed; otherwise what the device says of the work in the way. A wait for a block that
  /// was reclaimed long ago returns at once. REQUIRES: answer.outcome == wait_block.
  [[nodiscard]] DeviceCode wait_for_block(const PinnedAllocation& answer, std::int64_t timeout_ns = -1);
  /// Blocks until the device has answered one more request for a chunk than when `answer` was given; then ask again.
  /// timeout_ns < 0: for ever. False: the timeout passed. REQUIRES: answer.outcome == wait_chunk.
  [[nodiscard]] bool wait_for_chunk(const PinnedAllocation& answer, std::int64_t timeout_ns = -1);
  /// Blocks until initial_bytes are held or refused. For benches and for those who want no surprises later.
  void wait_until_built();

  [[nodiscard]] PinnedPoolStatistics statistics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tidemark::allocator
