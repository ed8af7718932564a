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
  using Node = std::set<std::uint64_t>::node_type;

  void add(std::uint64_t handle) {
    const std::lock_guard lock(mutex_);
    handles_.insert(handle);
  }
  /// Empty: it was never added, or removed before.
  [[nodiscard]] Node remove(std::uint64_t handle) {
    const std::lock_guard lock(mutex_);
    return handles_.extract(handle);
  }
  /// What could not be given back. Asks for no memory.
  void put_back(Node node) {
    const std::lock_guard lock(mutex_);
    handles_.insert(std::move(node));
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
