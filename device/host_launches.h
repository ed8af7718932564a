#pragma once
// Launches of the host back end: what they touch and how long they take. Reads are compared with their patterns
// (device/pattern.h), writes fill theirs in. Threads: any, as far as the touched bytes allow.

#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "device/device.h"

namespace tidemark {

/// Work's own copy of what it touches, and how long it takes.
struct HostLaunch {
  std::int64_t id = -1;
  std::chrono::nanoseconds takes{0};
  std::vector<Touch> touches;  ///< empty: not verified
};

class HostLaunches {
 public:
  using Clock = std::chrono::steady_clock;

  /// Ends at `end`, or as soon as possible if it takes no time. REQUIRES: the touched ranges are accessible.
  void run(const HostLaunch& launch, Clock::time_point end);
  /// How many reads did not find what they should, and the first of them.
  [[nodiscard]] std::int64_t mismatches(Mismatch& first);
  // Around a fork.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  void check(std::int64_t work_id, const Touch& touch);

  std::mutex mutex_;
  std::int64_t mismatches_ = 0;
  Mismatch first_;
};

}  // namespace tidemark
