#pragma once
// What is asked of an allocator and released, in order, while a caller listens.

#include <atomic>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "device/device.h"

namespace tidemark::c_api {

/// Threads: is_open() any; for the rest the owner holds a lock.
class RequestLog {
 public:
  struct Event {
    Address address = 0;
    Bytes bytes = 0;  ///< as asked for; 0: released
  };

  [[nodiscard]] bool is_open() const { return is_open_.load(std::memory_order_relaxed); }
  /// Empties it.
  void begin() {
    events_.clear();
    is_open_ = true;
  }
  /// What was noted since begin().
  [[nodiscard]] std::vector<Event> end() {
    is_open_ = false;
    return std::exchange(events_, {});
  }
  void note(Address address, Bytes bytes) {
    if (is_open_) events_.push_back({.address = address, .bytes = bytes});
  }

 private:
  std::atomic<bool> is_open_{false};
  std::vector<Event> events_;
};

}  // namespace tidemark::c_api
