// Exact peaks by credit against the sums themselves, over random interleavings of calls that overlap: a call that could
// not borrow enough settles later, and others allocate, free and ask for statistics in between.

#include "allocator/peak_credit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

namespace tidemark::allocator {
namespace {

class OverlappingCalls {
 public:
  OverlappingCalls(std::uint64_t seed, std::size_t shards) : random_(seed), shards_(shards), pending_(shards) {}

  void step() {
    const std::size_t shard = below(shards_.size());
    if (pending_[shard]) {
      if (below(3) == 0) settle(shard);
    } else if (below(40) == 0) {
      raise_peaks();  // statistics
    } else if (below(2) == 0 && !blocks_.empty()) {
      free_one(shard);
    } else {
      allocate(shard);
    }
    most_ = larger(most_, live());
  }

  /// What holds between any two steps.
  void check() const {
    const BlockSums completed = live(false);
    BlockSums credit;
    for (const PeakCredit& shard : shards_) credit += shard.credit.get();
    for (std::size_t sum = 0; sum < BlockSums::kSums; ++sum) {
      ASSERT_LE(completed.of[sum], peaks_.of[sum]) << "a peak was missed, sum " << sum;
      ASSERT_LE(peaks_.of[sum], most_.of[sum]) << "a peak that never was, sum " << sum;
      ASSERT_LE(credit.of[sum], peaks_.of[sum] - live().of[sum]) << "more credit than room, sum " << sum;
    }
  }
  void settle_all() {
    for (std::size_t shard = 0; shard < shards_.size(); ++shard)
      if (pending_[shard]) settle(shard);
  }
  [[nodiscard]] std::int64_t settled() const { return settled_; }
  [[nodiscard]] std::int64_t borrowed() const { return borrowed_; }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

  void allocate(std::size_t shard) {
    const auto bytes = static_cast<std::int64_t>(512 * (1 + below(below(8) == 0 ? 500 : 8)));
    const BlockSums block{{bytes, bytes - static_cast<std::int64_t>(below(512)), 1}};
    if (shards_[shard].grow(block) || borrow(shard)) {
      blocks_.push_back(block);
    } else {
      pending_[shard] = block;
    }
  }
  bool borrow(std::size_t shard) {
    for (PeakCredit& other : shards_) {
      if (&other == &shards_[shard] || below(4) == 0 || !shards_[shard].can_borrow(other)) continue;  // or busy
      ++borrowed_;
      if (shards_[shard].borrow(other)) return true;
    }
    return false;
  }
  void settle(std::size_t shard) {
    ++settled_;
    shards_[shard].credit += raise_peaks();
    blocks_.push_back(*pending_[shard]);
    pending_[shard].reset();
  }
  void free_one(std::size_t shard) {
    std::swap(blocks_[below(blocks_.size())], blocks_.back());
    shards_[shard].shrink(blocks_.back());
    blocks_.pop_back();
  }
  BlockSums raise_peaks() {
    peaks_ = larger(peaks_, live());
    BlockSums room = peaks_;
    room -= live();
    for (PeakCredit& shard : shards_) shard.deal(room);
    return room;
  }
  [[nodiscard]] BlockSums live(bool also_pending = true) const {
    BlockSums sums;
    for (const BlockSums& block : blocks_) sums += block;
    for (const auto& block : pending_)
      if (block && also_pending) sums += *block;
    return sums;
  }
  static BlockSums larger(const BlockSums& a, const BlockSums& b) {
    BlockSums sums;
    for (std::size_t sum = 0; sum < BlockSums::kSums; ++sum) sums.of[sum] = std::max(a.of[sum], b.of[sum]);
    return sums;
  }

  std::mt19937_64 random_;
  std::vector<PeakCredit> shards_;
  std::vector<std::optional<BlockSums>> pending_;  ///< by shard: counted, overdrawn, not settled
  std::vector<BlockSums> blocks_;
  BlockSums peaks_, most_;
  std::int64_t settled_ = 0, borrowed_ = 0;
};

TEST(PeakCredits, NoPeakIsMissedHoweverCallsOverlap) {
  std::int64_t settled = 0, borrowed = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    OverlappingCalls calls(seed, 2 + seed % 4);
    for (int step = 0; step < 600; ++step) {
      calls.step();
      ASSERT_NO_FATAL_FAILURE(calls.check()) << "seed " << seed << " step " << step;
    }
    calls.settle_all();
    ASSERT_NO_FATAL_FAILURE(calls.check()) << "seed " << seed;
    settled += calls.settled();
    borrowed += calls.borrowed();
  }
  EXPECT_GT(settled, 10'000);
  EXPECT_GT(borrowed, 10'000);
}

}  // namespace
}  // namespace tidemark::allocator
