#pragma once
// What is asked of an allocator and released, in order, while a caller listens.
//
// What other threads ask for, as those of a communication library do, comes whenever they run: a caller that wants to
// learn what its kernels need is told of its own requests.

#include <atomic>
#include <thread>
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
    noted_.clear();
    is_open_ = true;
  }
  /// Since begin(), what the calling thread has asked for, and all that was released.
  [[nodiscard]] std::vector<Event> end() {
    is_open_ = false;
    std::vector<Event> own;
    for (const Noted& noted : std::exchange(noted_, {}))
      if (noted.event.bytes == 0 || noted.thread == std::this_thread::get_id()) own.push_back(noted.event);
    return own;
  }
  void note(Address address, Bytes bytes) {
    if (!is_open_) return;
    noted_.push_back({.event = {.address = address, .bytes = bytes}, .thread = std::this_thread::get_id()});
  }

 private:
  struct Noted {
    Event event;
    std::thread::id thread;
  };

  std::atomic<bool> is_open_{false};
  std::vector<Noted> noted_;
};

}  // namespace tidemark::c_api
