#pragma once
// The copy engines of the host back end: memcpy by one or several threads, slowed down to a given rate if asked.
//
// One engine a direction. Rate: pieces book time on the engine's clock (bytes / rate each, one after the other) and
// wait for the end of their booking, so copies of several streams share the rate. A booking that comes a little after
// the one before has ended counts as a late wake-up and follows it without a gap; idle time is not saved up. Without a
// rate a copy is a single memcpy a thread. Threads: any; a second copy at the same time gets no helpers, it copies
// alone.

#include <chrono>
#include <condition_variable>
#include <cstdint>
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
  HostCopyEngine(int threads, Bytes bytes_per_s);
  ~HostCopyEngine();
  HostCopyEngine(const HostCopyEngine&) = delete;
  HostCopyEngine& operator=(const HostCopyEngine&) = delete;

  /// Returns when the bytes are there.
  void copy(void* to, const void* from, Bytes bytes);

 private:
  struct Share {
    char* to = nullptr;
    const char* from = nullptr;
    Bytes bytes = 0;
  };

  [[nodiscard]] static Share share_of(const Share& whole, std::size_t index, std::size_t count);
  void copy_share(const Share& share);
  void copy_together(const Share& whole);
  void help(std::size_t index);

  HostLink link_;
  std::mutex crew_;  ///< held by the copy that has the helpers
  std::mutex mutex_;
  std::condition_variable changed_;
  Share whole_;             ///< what the helpers are at
  std::uint64_t turn_ = 0;  ///< counts the copies done together
  std::size_t busy_ = 0;    ///< helpers not done with this turn
  bool ending_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace tidemark
