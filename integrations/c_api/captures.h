#pragma once
// Which pool the work of a stream allocates from while graphs are captured. A framework opens a pool before it begins
// to capture, with a filter that tells the captured streams, and closes it afterwards.
//
// Cost while nothing is open: one load. Threads: any; filters are called under a shared lock, and must not open or
// close pools.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/fork_handlers.h"

namespace tidemark::c_api {

struct Pool;

/// An allocation under way in a pool: as long as there is one the pool does not go, though no block is live. In the
/// child of a fork there are none, since the threads are gone.
class Visit {
 public:
  Visit() = default;
  explicit Visit(std::shared_ptr<Pool> pool);
  Visit(Visit&& other) noexcept : pool_(std::move(other.pool_)) {}
  Visit& operator=(Visit&&) = delete;
  ~Visit();

  [[nodiscard]] explicit operator bool() const { return pool_ != nullptr; }
  [[nodiscard]] Pool* operator->() const { return pool_.get(); }

 private:
  std::shared_ptr<Pool> pool_;
};

/// The child has a new lock: in the old one its parent's other threads may stand in line. It is released before, as
/// ThreadSanitizer would else take it for held ever after.
template <class Mutex>
[[nodiscard]] ForkSteps held_over_a_fork(Mutex& mutex) {
  return {.before_fork = [&mutex] { mutex.lock(); },
          .after_fork_in_parent = [&mutex] { mutex.unlock(); },
          .after_fork_in_child =
              [&mutex] {
                mutex.unlock();
                std::construct_at(&mutex);
              }};
}

/// PyTorch's MempoolId_t.
using GraphId = std::pair<std::uint64_t, std::uint64_t>;

class Captures {
 public:
  using Filter = std::function<bool(StreamHandle)>;

  [[nodiscard]] bool any() const { return count_.load(std::memory_order_acquire) > 0; }
  /// Null: the stream is not captured. Of several, the pool that was opened last.
  [[nodiscard]] Visit pool_for(StreamHandle stream) const;
  [[nodiscard]] bool covers(StreamHandle stream) const {
    if (!any()) return false;
    const std::shared_lock lock(mutex_);
    return find(stream) != nullptr;
  }

  void open(GraphId id, std::shared_ptr<Pool> pool, Filter filter) {
    const std::unique_lock lock(mutex_);
    open_.push_back({.id = id, .pool = std::move(pool), .filter = std::move(filter)});
    ++count_;
  }
  /// The one opened last with this id. False: there is none. The filter goes when nobody is in it.
  [[nodiscard]] bool close(GraphId id) {
    Open closed;
    const std::unique_lock lock(mutex_);
    for (auto open = open_.end(); open != open_.begin();) {
      if ((--open)->id != id) continue;
      closed = std::move(*open);
      open_.erase(open);
      --count_;
      return true;
    }
    return false;
  }

 private:
  struct Open {
    GraphId id;
    std::shared_ptr<Pool> pool;
    Filter filter;
  };
  [[nodiscard]] const Open* find(StreamHandle stream) const {
    for (auto open = open_.rbegin(); open != open_.rend(); ++open)
      if (open->filter(stream)) return &*open;
    return nullptr;
  }

  mutable std::shared_mutex mutex_;
  std::vector<Open> open_;
  std::atomic<int> count_{0};
  const ForkHandlers at_fork_{ForkLevel::stream_order, held_over_a_fork(mutex_)};
};

}  // namespace tidemark::c_api
