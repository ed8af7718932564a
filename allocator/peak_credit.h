#pragma once
// Exact peaks of sums that many threads change, without a counter that all of them write.
//
// Every shard holds *credit* for each sum: by how much the sum may still grow through this shard before its peak so far
// could be exceeded.
//   Invariant: the credits of all shards together are at most peak - current.
// Growth is taken from the credit of the shard of the thread that allocates, whosever space the block comes from;
// shrinkage is added to the credit of the shard of the thread that frees (of a block used by several streams, to that
// of its space). A call that overdraws takes what it lacks from another shard, and every other time half of the rest
// besides: only what it lacks would leave it without the next time; always half as well would make two threads that
// need the same bytes at the peak take them from each other for ever. What one lacks the next may have. Shards that are
// busy are passed over. Credit moves, so the sum over all shards is what it was. Where that does not do, all of them
// are locked: the sums are computed, the peaks that they exceed are raised, and what is left below the peaks is credit
// again. So threads meet two at a time, where blocks are freed on one and allocated on the other, and all of them where
// a peak is set or where those that have credit are busy.
//
// A peak is exact for one order of the calls that overlap in time: a call that found credit comes before the one that
// is overdrawn at that moment and has not returned. Threads: none; the shards' locks. `credit` may be looked at by any.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/bytes.h"

namespace tidemark::allocator {

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
    for (std::size_t sum = 0; sum < BlockSums::kSums; ++sum) set(sum, get(sum) + by.of[sum]);
    return *this;
  }
  SharedSums& operator-=(const BlockSums& by) {
    for (std::size_t sum = 0; sum < BlockSums::kSums; ++sum) set(sum, get(sum) - by.of[sum]);
    return *this;
  }
  void clear() {
    for (std::atomic<std::int64_t>& sum : of_) sum.store(0, std::memory_order_relaxed);
  }
  void set(std::size_t sum, std::int64_t value) { of_[sum].store(value, std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t get(std::size_t sum) const { return of_[sum].load(std::memory_order_relaxed); }
  [[nodiscard]] BlockSums get() const {
    BlockSums sums;
    for (std::size_t sum = 0; sum < BlockSums::kSums; ++sum) sums.of[sum] = get(sum);
    return sums;
  }

 private:
  std::array<std::atomic<std::int64_t>, BlockSums::kSums> of_ = {};
};

/// One shard's part.
struct PeakCredit {
  SharedSums up;           ///< all that was allocated through this shard
  SharedSums down;         ///< all that was freed
  SharedSums credit;       ///< below zero: this shard's thread is about to borrow or settle
  std::size_t lender = 0;  ///< the shard that had credit to spare last
  bool greedy = false;     ///< whether the last borrowing took more than it lacked

  /// False: overdrawn; to be made good before the call returns to its caller.
  [[nodiscard]] bool grow(const BlockSums& by) {
    up += by;
    credit -= by;
    return !credit.get().overdrawn();
  }
  /// Whether borrow() would move anything, as far as can be seen without the other's lock.
  [[nodiscard]] bool can_borrow(const PeakCredit& other) const {
    bool can = false;
    for (std::size_t sum = 0; sum < BlockSums::kSums; ++sum) can |= credit.get(sum) < 0 && other.credit.get(sum) > 0;
    return can;
  }
  /// True: nothing is lacking any more. REQUIRES: both locked.
  [[nodiscard]] bool borrow(PeakCredit& other) {
    greedy = !greedy;
    for (std::size_t sum = 0; sum < BlockSums::kSums; ++sum) {
      const std::int64_t lack = -credit.get(sum);
      const std::int64_t has = other.credit.get(sum);
      if (lack <= 0 || has <= 0) continue;
      const std::int64_t moved = has <= lack ? has : lack + (greedy ? (has - lack) / 2 : 0);
      other.credit.set(sum, has - moved);
      credit.set(sum, moved - lack);
    }
    return !credit.get().overdrawn();
  }
  /// Due for every shard whenever the peaks were raised, with what they leave in all: what was overdrawn is in the sums
  /// by now and is owed no longer, and what is held is kept as far as `room` lasts, from which it is taken.
  void deal(BlockSums& room) {
    for (std::size_t sum = 0; sum < BlockSums::kSums; ++sum) {
      credit.set(sum, std::clamp<std::int64_t>(credit.get(sum), 0, room.of[sum]));
      room.of[sum] -= credit.get(sum);
    }
  }
  void shrink(const BlockSums& by) {
    down += by;
    credit += by;
  }
};

}  // namespace tidemark::allocator
