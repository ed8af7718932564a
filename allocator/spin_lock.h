#pragma once
// A lock for critical sections of a few dozen instructions that is nearly never contended: one cache line's exchange.
// Yields to the scheduler when the holder does not come back soon, so that it also works with more threads than cores.

#include <atomic>
#include <thread>

namespace tidemark {

class SpinLock {
 public:
  void lock() {
    for (int spins = 0; taken_.exchange(true, std::memory_order_acquire); ++spins) {
      while (taken_.load(std::memory_order_relaxed)) {
        if (++spins > kSpins) std::this_thread::yield();
      }
    }
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 64;
  std::atomic<bool> taken_{false};
};

}  // namespace tidemark
