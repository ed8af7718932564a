#pragma once
// Freed memory that the device may still be using: parked blocks with more than one death, and per stream the youngest
// death of anything free. Records and asks events of its own, but only when told to: never on the fast path.
//
// Threads: the core lock, passed to the calls that release it: wait_one() while it waits, poll() and order_behind()
// while the device has their records and waits to take, as below a framework that queues its launches it first waits
// for the framework's thread (device/launch_queue_device.h), and that thread may be freeing a block. What the caller
// found before may then be otherwise. No caller waits for long for a thread that has released it so, which may be
// waiting for just that one.

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "allocator/block.h"
#include "allocator/statistics.h"

namespace tidemark::allocator {

class PendingBlocks {
 public:
  using CoreLock = std::unique_lock<std::mutex>;
  /// What becomes of a parked block: free for `stream` at once, for others after `stamp`.
  using Release = std::function<void(BlockHeader*, StreamSlot stream, Epoch stamp)>;

  PendingBlocks(Device& device, StreamOrder& order, AllocatorStatistics& statistics)
      : device_(&device), order_(&order), statistics_(&statistics) {}

  /// Room for the deaths of a stream, and for one more parked block: note_death() and park() cannot fail then.
  void prepare(StreamSlot stream);
  /// Something that died so is free or parked.
  void note_death(Death death);
  void park(BlockHeader* block, const Frontier& frontier);
  [[nodiscard]] Bytes parked_bytes() const { return parked_bytes_; }
  /// May release_known() find anything that it did not find last time?
  [[nodiscard]] bool news() const { return !parked_.empty() && seen_version_ != order_->version(); }
  /// Releases parked blocks that are over for their own stream, or for the requester.
  void release_known(StreamSlot requester, const Release& release);
  /// All of them: the device is idle or gone.
  void release_all(const Release& release);

  /// Records an event on every stream with unfinished deaths that has none under way and asks all of them. True if
  /// something has completed or the lock was released: there may be something new. Does not wait for the device.
  bool poll(CoreLock& core);
  /// Is anything freed not known to be complete?
  [[nodiscard]] bool unfinished() const;
  /// Waits for one event under way, the oldest. not_ready: there is none that can be waited for.
  [[nodiscard]] DeviceCode wait_one(CoreLock& core);
  /// Waits while another thread records events, and not for long; false: none does, or it still does.
  [[nodiscard]] bool wait_for_submission(CoreLock& core);
  /// Lets `stream` wait for everything under way on other streams. True if the lock was released for that.
  bool order_behind(StreamSlot stream, CoreLock& core);
  void destroy_events();
  /// In the child of a process: the threads that released the lock are not in it.
  void forget_waits();

 private:
  struct Parked {
    BlockHeader* block;
    Frontier frontier;
  };
  /// By a thread that has released the core lock: others leave the event alone.
  enum class Held : std::uint8_t {
    no,
    submitted,   ///< it records the event, or has a stream wait for it
    waited_for,  ///< the host waits for it
  };
  struct Watch {
    EventHandle event = {};
    bool made = false;
    bool under_way = false;
    Held held = Held::no;
    std::uint64_t sequence = 0;
    Epoch latest_death = 0;
  };

  struct Submission {
    std::size_t slot = 0;
    EventHandle event = {};
    bool is_done = false;
  };

  [[nodiscard]] bool unfinished(std::size_t slot) const;
  bool ask(Watch& watch);
  template <class Call, class Note>
  void submit(const MetadataVector<std::size_t>& slots, CoreLock& core, const Call& call, const Note& note);

  Device* device_;
  StreamOrder* order_;
  AllocatorStatistics* statistics_;
  MetadataVector<Parked> parked_;
  Bytes parked_bytes_ = 0;
  std::uint64_t seen_version_ = 0;
  MetadataVector<Watch> watches_;  ///< by slot
  std::uint64_t sequence_ = 0;
  bool is_ordering_ = false;                  ///< a thread is in order_behind()
  std::atomic<std::uint64_t> waits_over_{0};  ///< no condition variable: a child of the process could not destroy it
};

}  // namespace tidemark::allocator
