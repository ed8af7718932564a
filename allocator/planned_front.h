#pragma once
// A planned arena in front of a caching allocator: what comes as planned stands where the plan says, and everything
// else is the allocator's.
//
// Where it lies. The arena's bytes are one block of the allocator, so its limit holds for both; what is handed out of
// it counts as the allocator's own blocks do, peaks included (CachingAllocator::allocate_lent).
//
// Order. Blocks are for work of one stream, the one that was planned for; who asks for another is not served. A block
// that is freed serves that stream at once. One that other streams have used, or that is freed on another, is held
// until an event of each is complete. The front asks the events whenever it is asked for something. Recording them and
// waiting for them is left to release_freed() and wait_for_freed(), which are called without locks: the device may
// first wait for a framework's thread (device/launch_queue_device.h), which may be in any call of the front or above
// it. What else is called here reaches no stream.
//
// An end. retire() stops it from serving what is planned; it is done for when is_empty(), and must live until then. As
// long as a block of it lives it serves where the allocator is at its end, and resume() has it serve the same plan
// again: a training loop may hold the loss of one session into the next.
//
// Memory of idle granules. Where neither the allocator behind nor the arena has as much in one piece,
// unmap_idle() returns granules of the arena that hold nothing to the device, so that the allocator can map as
// many elsewhere. Their addresses stay the arena's; begin_step() is to come behind map_again(), which maps them again.
// What there is no memory for stays without, and what was planned there is served by the allocator meanwhile.
//
// Cost: PlannedArena's, one uncontended lock and two counters. Threads: any.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/planned_arena.h"
#include "allocator/spin_lock.h"
#include "device/device.h"
#include "device/fork_handlers.h"

namespace tidemark::allocator {

/// What the requests that come are.
enum class Requests : std::uint8_t {
  planned,    ///< of the step that was planned for
  other,      ///< of other work: they would take the places of planned blocks
  transient,  ///< of other work, freed before the step goes on: free bytes of the arena serve them first
};

class PlannedFront {
 public:
  /// Takes the block of the arena for `stream`. `blocks`: as PlannedArena. Errors: as CachingAllocator::allocate().
  [[nodiscard]] static DeviceCode open(Device& device, CachingAllocator& behind, std::span<const PlannedBlock> blocks,
                                       StreamHandle stream, std::unique_ptr<PlannedFront>& front);
  /// REQUIRES: is_empty(). The block goes back to the allocator.
  ~PlannedFront();
  PlannedFront(const PlannedFront&) = delete;
  PlannedFront& operator=(const PlannedFront&) = delete;

  /// The planned address, or for transient requests any free bytes; nothing: the allocator behind is to serve it.
  [[nodiscard]] std::optional<Address> allocate(Bytes bytes, StreamHandle stream);
  /// Where the allocator behind is at its end: any free bytes, or nothing; then wait_for_freed() may help.
  [[nodiscard]] std::optional<Address> allocate_anywhere(Bytes bytes, StreamHandle stream);
  /// Whether an address is one of the arena's, which free(), note_use() and requested_bytes() are for.
  [[nodiscard]] bool covers(Address address) const { return address - base_ < static_cast<Address>(extent_); }
  /// invalid: no live block starts there. `last`: as CachingAllocator::free(); nullptr: its own stream. Where other
  /// streams may still use the block, release_freed() is due.
  [[nodiscard]] DeviceCode free(Address address, const StreamHandle* last);
  [[nodiscard]] DeviceCode note_use(Address address, StreamHandle stream);
  /// Of a live block; 0: there is none at the address.
  [[nodiscard]] Bytes requested_bytes(Address address) const;

  /// Blocks were freed that have no events yet: release_freed() is due.
  [[nodiscard]] bool has_unwatched() const { return has_unwatched_.load(std::memory_order_relaxed); }
  /// Events behind the blocks that were freed, where they have none; blocks whose events are complete are free again.
  /// Where a stream can be given no event and not be waited for now, that is tried again the next time.
  /// REQUIRES: no lock is held that a framework's thread takes.
  void release_freed();
  /// On the host, for the block that was freed first; false: none has events to wait for. REQUIRES: as release_freed().
  [[nodiscard]] bool wait_for_freed();

  /// Granules of the arena that the plan wants last, until they are `bytes`; waits for the stream where there are any.
  /// Blocks that were freed and are held for another stream keep theirs: wait_for_freed().
  /// Returns the bytes that went to the device. REQUIRES: as release_freed().
  Bytes unmap_idle(Bytes bytes);
  /// Memory behind those again, as far as the allocator has it to spare; the code that the rest was refused with, else
  /// `ok`. REQUIRES: as release_freed().
  DeviceCode map_again();
  /// Bytes of the arena that have no memory meanwhile.
  [[nodiscard]] Bytes unmapped_bytes() const;

  /// `thread`: whose work the step is, where it is done by the thread that calls and not on a stream; the requests of
  /// others, as those of a communication library, come at any time and are left to the allocator behind. None: it is
  /// the stream that tells.
  void begin_step(std::thread::id thread = {});
  /// As PlannedArena::advance().
  void advance(std::int32_t due);
  /// Until the next call; planned ones at first.
  void expect(Requests requests);
  void retire();
  /// Serves again, with counts that begin anew; false: it has not retired, or the plan is another one.
  [[nodiscard]] bool resume(std::span<const PlannedBlock> blocks, StreamHandle stream);
  [[nodiscard]] bool is_retired() const;
  /// Nothing is live, and nothing that was freed is held yet.
  [[nodiscard]] bool is_empty() const;
  [[nodiscard]] PlannedArenaCounts counts() const;
  /// Left to the allocator behind since they came from another thread than the step's; not in counts().
  [[nodiscard]] std::int64_t requests_of_other_threads() const;
  [[nodiscard]] Bytes extent_bytes() const { return extent_; }
  [[nodiscard]] bool is_for(StreamHandle stream) const { return stream == stream_; }

 private:
  /// A block that was freed while other streams may still use it.
  struct Held {
    Address address = 0;
    std::vector<EventHandle> behind;
    std::vector<StreamHandle> unwatched;  ///< that have no event yet
    bool is_taken = false;                ///< by a thread, which waits for its events or records them
  };

  PlannedFront(Device& device, CachingAllocator& behind, std::span<const PlannedBlock> blocks, StreamHandle stream,
               Address base, Bytes extent);
  template <class Serve>
  [[nodiscard]] std::optional<Address> serve(Bytes bytes, StreamHandle stream, const Serve& serve);
  [[nodiscard]] bool is_of_another_thread() const;
  [[nodiscard]] bool is_live(Address address) const;
  /// Events behind what those streams were given so far; the host waits where there are none to be had. Streams with
  /// which neither can be done now are left in `streams`.
  [[nodiscard]] std::vector<EventHandle> record(std::vector<StreamHandle>& streams);
  /// Records them for the block at `address`, which is held and taken, and gives it back. Not under the lock.
  void watch(Address address, std::vector<StreamHandle> streams);
  void watch_unwatched();
  void release_complete();
  [[nodiscard]] ForkSteps fork_steps();

  Device& device_;
  CachingAllocator& behind_;
  const StreamHandle stream_;
  const Address base_;
  const Bytes extent_;
  mutable SpinLock lock_;
  const std::vector<PlannedBlock> blocks_;
  PlannedArena arena_;
  bool is_retired_ = false;
  Requests expected_ = Requests::planned;
  std::thread::id thread_;                              ///< of the step's work; none: any
  std::vector<std::pair<Address, StreamHandle>> uses_;  ///< of live blocks, by other streams
  std::vector<Held> held_;
  std::vector<PlannedArena::Piece> unmapped_;  ///< but for those that unmap_idle() or map_again() has in hand
  std::atomic<bool> has_unwatched_{false};     ///< some of held_ may have
  std::int64_t of_other_threads_ = 0;          ///< requests
  const ForkHandlers at_fork_{ForkLevel::allocator, fork_steps()};
};

}  // namespace tidemark::allocator
