#pragma once
// Exact peaks of sums that many threads change, without a counter that all of them write.
//
// Every shard holds *credit* for each sum: by how much the sum may still grow through this shard before its peak so far
// could be exceeded.
//   Invariant: the credits of all shards together are at most peak - current.
// Growth is taken from the shard's own credit, shrinkage added to it. Only a call that overdraws looks at the other
// shards, all of them locked: it computes the sums, raises the peaks that they exceed, and takes what it lacks from the
// others' credit, every other time half of the rest besides. So threads meet when a peak is set, or when credit is
// where blocks are freed and missing where they are allocated (then rarely: a half lasts), and never otherwise. Taking
// only halves would make two threads near the peak take the same bytes from each other for ever.
//
// A peak is exact for one order of the calls that overlap in time. Threads: none; the shards' locks.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/bytes.h"

namespace tidemark {

/// What one block, or many, add to every sum.
struct BlockSums {
  enum Sum : std::size_t { bytes, requested_bytes, blocks, kSums };
  std::array<std::int64_t, kSums> of = {};

  BlockSums& operator+=(const BlockSums& by) {
    for (std::size_t sum = 0; sum < kSums; ++sum) of[sum] += by.of[sum];
    return *this;
  }
  BlockSums& operator-=(const BlockSums& by) {
    for (std::size_t sum = 0; sum < kSums; ++sum) of[sum] -= by.of[sum];
    return *this;
  }
  /// Whether any sum is below zero.
  [[nodiscard]] bool overdrawn() const {
    std::int64_t signs = 0;
    for (const std::int64_t sum : of) signs |= sum;
    return signs < 0;
  }
};

/// Sums that one thread at a time changes and any may read, each number by itself.
class SharedSums {
 public:
  SharedSums& operator+=(const BlockSums& by) {
    for (std::size_t sum = 0; sum < BlockSums::kSums; ++sum)
      of_[sum].store(of_[sum].load(std::memory_order_relaxed) + by.of[sum], std::memory_order_relaxed);
    return *this;
  }
  [[nodiscard]] BlockSums get() const {
    BlockSums sums;
    for (std::size_t sum = 0; sum < BlockSums::kSums; ++sum) sums.of[sum] = of_[sum].load(std::memory_order_relaxed);
    return sums;
  }

 private:
  std::array<std::atomic<std::int64_t>, BlockSums::kSums> of_ = {};
};

/// One shard's part.
struct PeakCredit {
  SharedSums up;     ///< all that was allocated through this shard
  SharedSums down;   ///< all that was freed
  BlockSums credit;  ///< below zero: this shard's thread is about to settle
  bool greedy = false;

  /// False: overdrawn; to be settled before the call returns to its caller.
  [[nodiscard]] bool grow(const BlockSums& by) {
    up += by;
    credit -= by;
    return !credit.overdrawn();
  }
  void shrink(const BlockSums& by) {
    down += by;
    credit += by;
  }
};

}  // namespace tidemark
