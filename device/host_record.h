#pragma once
// A thing that becomes complete once and then says how the work before it went. Threads: any.

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
  [[nodiscard]] bool is_complete() const;
  /// Blocks; timeout_ns < 0: for ever. False: the timeout passed.
  [[nodiscard]] bool await(std::int64_t timeout_ns) const;
  /// REQUIRES: complete.
  [[nodiscard]] HostFailure failure() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool complete_ = false;
  HostFailure failure_;
};

}  // namespace tidemark
