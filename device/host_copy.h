#pragma once
// The copy engines of the host back end: memcpy by one or several threads, slowed down to a given rate if asked.
//
// One engine a direction. Of several threads each takes slices of large copies, the oldest copy first: one that finds
// nothing left of a copy goes on with the next and does not wait for the others, of which one may be away from its core
// for several copies. Small copies, and all of a single thread, are done by who begins them.
// Rate: pieces book time on the engine's clock (bytes / rate each, one after the other) and wait for the end of their
// booking, so copies of several streams share the rate. A booking that comes a little after the one before has ended
// counts as a late wake-up and follows it without a gap; idle time is not saved up. Threads: any.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/bytes.h"

namespace tidemark {

/// Books time on a link. Threads: any.
class HostLink {
 public:
  using Clock = std::chrono::steady_clock;
  /// 0: no limit.
  explicit HostLink(Bytes bytes_per_s) : bytes_per_s_(bytes_per_s) {}

  [[nodiscard]] bool limited() const { return bytes_per_s_ > 0; }
  /// About a millisecond's worth, at least a page.
  [[nodiscard]] Bytes piece_bytes() const;
  /// When `bytes` that start no earlier than `now` are through. Bookings follow each other without gaps while there is
  /// no idle time. REQUIRES: limited().
  [[nodiscard]] Clock::time_point book(Bytes bytes, Clock::time_point now);

 private:
  const Bytes bytes_per_s_;
  std::mutex mutex_;
  Clock::time_point free_at_{};
};

class HostCopyEngine {
 public:
  /// Threads begin with the first large copy; where none can be had, the thread that begins a copy does it.
  /// `numa_node`: of the device; -1: not known.
  HostCopyEngine(int threads, Bytes bytes_per_s, int numa_node = -1)
      : threads_(threads), numa_node_(numa_node), link_(bytes_per_s) {}
  ~HostCopyEngine();
  HostCopyEngine(const HostCopyEngine&) = delete;
  HostCopyEngine& operator=(const HostCopyEngine&) = delete;

  /// Calls `done` once, when the bytes are there, from any thread and perhaps before this returns; it must not call the
  /// engine.
  void begin(void* to, const void* from, Bytes bytes, std::function<void()> done);

 private:
  struct Slice {
    char* to = nullptr;
    const char* from = nullptr;
    Bytes bytes = 0;
  };
  struct Copy {
    Slice left;            ///< not claimed yet
    std::size_t busy = 0;  ///< threads at a slice
    std::function<void()> done;
  };
  using Lock = std::unique_lock<std::mutex>;

  void copy_alone(const Slice& slice);
  /// False: there are no threads, and none are to be had.
  [[nodiscard]] bool start_workers();
  /// Takes a copy of which nothing is left from the list. REQUIRES: mutex_ is held, something is left.
  [[nodiscard]] Slice claim(const std::shared_ptr<Copy>& copy);
  /// Until nothing is left to claim. `lock` is of mutex_, held before and after.
  void copy_slices(const std::shared_ptr<Copy>& copy, Lock& lock);
  void work();

  const int threads_;
  const int numa_node_;
  HostLink link_;
  std::mutex mutex_;
  std::condition_variable begun_;
  std::deque<std::shared_ptr<Copy>> copies_;  ///< of which something is left, oldest first
  bool ending_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tidemark
