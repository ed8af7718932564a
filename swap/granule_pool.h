#pragma once
// Which of n interchangeable granules are free at a point of the compute clock. Pure numbers.
//
// Takers come in the order of the clock (core/dynamic_region.h), so a granule given back "free from release r" serves
// any later taker whose acquire is at least r. The lowest numbers go first: a periodic step then meets the same sets
// again, and what was composed of them can be reused.
//
// Cost: O(log n) a granule. Threads: none.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace tidemark::swap {

class GranulePool {
 public:
  /// Granules [first, first + count).
  GranulePool(std::int64_t first, std::int64_t count) : count_(count) {
    for (std::int64_t i = 0; i < count; ++i) free_.push(first + i);
  }

  /// Whether so many are free. REQUIRES: acquire is not below that of earlier calls.
  [[nodiscard]] bool has(std::int64_t granules, std::int32_t acquire) {
    while (!returning_.empty() && returning_.top().release <= acquire) {
      free_.push(returning_.top().granule);
      returning_.pop();
    }
    return static_cast<std::int64_t>(free_.size()) >= granules;
  }
  /// False, and nothing changed but the clock, if fewer are free. REQUIRES: acquire is not below that of earlier calls.
  [[nodiscard]] bool take(std::int64_t granules, std::int32_t acquire, std::vector<std::int64_t>& taken) {
    if (!has(granules, acquire)) return false;
    for (std::int64_t i = 0; i < granules; ++i) {
      taken.push_back(free_.top());
      free_.pop();
    }
    peak_ = std::max(peak_, in_use());
    return true;
  }
  /// Every task that touches them is ordered before half-step `release`.
  void give_back(const std::vector<std::int64_t>& granules, std::int32_t release) {
    for (const std::int64_t granule : granules) returning_.push({.release = release, .granule = granule});
  }
  /// A new step: everything is free, and the peak is that of the new step.
  void restart() {
    for (; !returning_.empty(); returning_.pop()) free_.push(returning_.top().granule);
    peak_ = in_use();
  }

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t in_use() const { return count_ - static_cast<std::int64_t>(free_.size()); }
  [[nodiscard]] std::int64_t peak() const { return peak_; }

 private:
  struct Returning {
    std::int32_t release = 0;
    std::int64_t granule = 0;
    bool operator>(const Returning& other) const {
      return release != other.release ? release > other.release : granule > other.granule;
    }
  };
  std::int64_t count_ = 0, peak_ = 0;
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> free_;
  std::priority_queue<Returning, std::vector<Returning>, std::greater<>> returning_;
};

}  // namespace tidemark::swap
