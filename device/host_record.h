#pragma once
// A thing that becomes complete once and then says how the work before it went. One that is complete is asked without
// its lock, which a thread that a forked process has not may hold. Threads: any.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "device/device.h"

namespace tidemark {

/// How work ended.
struct HostFailure {
  DeviceCode code = DeviceCode::ok;
  std::string text;
};

class HostRecord {
 public:
  void complete(HostFailure failure);
  [[nodiscard]] bool is_complete() const { return complete_.load(std::memory_order_acquire); }
  /// Blocks; timeout_ns < 0: for ever. False: the timeout passed.
  [[nodiscard]] bool await(std::int64_t timeout_ns) const;
  /// REQUIRES: complete.
  [[nodiscard]] const HostFailure& failure() const { return failure_; }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::atomic<bool> complete_{false};
  HostFailure failure_;  ///< constant once complete
};

}  // namespace tidemark
