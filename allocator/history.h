#pragma once
// The last events of an allocator, in a ring. Off (and free of cost but for one test) when its length is 0.
// Threads: any.

#include <cstddef>
#include <mutex>
#include <vector>

#include "allocator/metadata_memory.h"
#include "allocator/snapshot.h"

namespace tidemark::allocator {

class History {
 public:
  explicit History(std::size_t length) : ring_(length) {}

  /// For a fork only.
  [[nodiscard]] std::mutex& mutex() const { return mutex_; }
  [[nodiscard]] bool on() const { return !ring_.empty(); }
  void add(const TraceEvent& event) {
    const std::lock_guard lock(mutex_);
    ring_[count_++ % ring_.size()] = event;
  }
  [[nodiscard]] std::size_t dropped() const {
    const std::lock_guard lock(mutex_);
    return count_ > ring_.size() ? count_ - ring_.size() : 0;
  }
  /// Oldest first.
  [[nodiscard]] std::vector<TraceEvent> events() const {
    const std::lock_guard lock(mutex_);
    std::vector<TraceEvent> events;
    for (std::size_t i = count_ > ring_.size() ? count_ - ring_.size() : 0; i < count_; ++i) {
      events.push_back(ring_[i % ring_.size()]);
    }
    return events;
  }

 private:
  mutable std::mutex mutex_;
  MetadataVector<TraceEvent> ring_;
  std::size_t count_ = 0;
};

}  // namespace tidemark::allocator
