#pragma once
// A lock for critical sections of a few dozen instructions that is nearly never contended: one exchange to take it, one
// store to release it. A thread that does not get it soon sleeps, a little longer each time: the holder may be off the
// processor, or be growing its memory, which takes a device as long as thousands of allocations.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace tidemark::allocator {

class SpinLock {
 public:
  void lock() {
    while (taken_.exchange(true, std::memory_order_acquire)) wait();
  }
  [[nodiscard]] bool try_lock() {
    return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 200;
  static constexpr std::chrono::microseconds kFirstNap{5};
  static constexpr std::chrono::microseconds kLongestNap{500};

  void wait() {
    for (int spins = 0; spins < kSpins; ++spins) {
      if (!taken_.load(std::memory_order_relaxed)) return;
    }
    for (auto nap = kFirstNap; taken_.load(std::memory_order_relaxed); nap = std::min(2 * nap, kLongestNap))
      std::this_thread::sleep_for(nap);
  }

  std::atomic<bool> taken_{false};
};

}  // namespace tidemark::allocator
