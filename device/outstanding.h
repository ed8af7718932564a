#pragma once
// Handles that a device handed out and did not get back yet, so that it can give them back itself at its end.
// Threads: any.

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

namespace tidemark {

class Outstanding {
 public:
  void add(std::uint64_t handle) {
    const std::lock_guard lock(mutex_);
    handles_.insert(handle);
  }
  /// False: it was never added, or removed before.
  [[nodiscard]] bool remove(std::uint64_t handle) {
    const std::lock_guard lock(mutex_);
    return handles_.erase(handle) > 0;
  }
  [[nodiscard]] std::set<std::uint64_t> take_all() {
    const std::lock_guard lock(mutex_);
    return std::exchange(handles_, {});
  }

 private:
  std::mutex mutex_;
  std::set<std::uint64_t> handles_;
};

}  // namespace tidemark
