#pragma once
// Granules, or pieces of host memory, and when they are free on the compute clock. Pure numbers.
//
//   always       those of the dynamic region, and spare pinned memory
//   for a while  those that stand empty by the plan, and those of a slot that its storage does not fill: until the slot
//                is wanted again
//
// Takers come in the order of the clock (core/dynamic_region.h) and say until when they need what they take. So a
// granule given back "free from release r" serves any later taker whose acquire is at least r and who is done before it
// is gone. Of what would do, the soonest gone goes first, then the lowest number: what is always free is kept for those
// who need it longest, and a periodic step meets the same sets again, so that what was composed of them can be reused.
//
// Cost: O(log n) a run of granules; available() and take() are linear in the ends that differ. Threads: none.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "core/dynamic_region.h"

namespace tidemark::swap {

class GranulePool {
 public:
  static constexpr std::int32_t kAlways = std::numeric_limits<std::int32_t>::max();
  /// Lent for the rest of the step.
  static constexpr std::int32_t kToTheEnd = kAlways - 1;

  struct Run {
    GranuleRange granules;
    std::int32_t until = kAlways;  ///< half-step at which it is no longer free
    friend bool operator==(const Run&, const Run&) = default;
  };

  GranulePool() = default;
  /// Granules [first, first + count) are free always.
  GranulePool(std::int64_t first, std::int64_t count) { add({.first = first, .count = count}); }
  /// So are these. REQUIRES: nothing is taken.
  void add(GranuleRange more) {
    always_.push_back(more);
    count_ += more.count;
    insert({.granules = more});
  }

  /// Free from half-step `from` until `until`.
  void lend(GranuleRange granules, std::int32_t from, std::int32_t until) {
    if (granules.count > 0 && from < until) returning_[from].push_back({.granules = granules, .until = until});
  }

  /// How many are free until `until`. REQUIRES: acquire is not below that of earlier calls.
  [[nodiscard]] std::int64_t available(std::int32_t acquire, std::int32_t until) {
    advance(acquire);
    std::int64_t count = 0;
    for (auto end = free_.lower_bound(until); end != free_.end(); ++end) count += end->second.count;
    return count;
  }
  /// False, and nothing changed but the clock, if fewer are. REQUIRES: as available().
  [[nodiscard]] bool take(std::int64_t granules, std::int32_t acquire, std::int32_t until, std::vector<Run>& taken) {
    if (available(acquire, until) < granules) return false;
    for (auto end = free_.lower_bound(until); granules > 0 && end != free_.end(); ++end)
      granules -= take_of(end->first, end->second, granules, taken);
    peak_ = std::max(peak_, in_use_);
    return true;
  }
  /// Every task that touches them is ordered before half-step `release`.
  void give_back(std::span<const Run> runs, std::int32_t release) {
    std::vector<Run>& returning = returning_[release];
    returning.insert(returning.end(), runs.begin(), runs.end());
  }
  /// A new step: what is always free is free, nothing else, and the peak is that of the new step.
  void restart() {
    free_.clear();
    returning_.clear();
    in_use_ = peak_ = 0;
    for (const GranuleRange& always : always_) insert({.granules = always});
  }

  /// Of those that are always free.
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t in_use() const { return in_use_; }
  [[nodiscard]] std::int64_t peak() const { return peak_; }

 private:
  /// Those of one end: runs by their first granule, which do not meet.
  struct Free {
    std::map<std::int64_t, std::int64_t> runs;
    std::int64_t count = 0;
  };

  void insert(const Run& run) {
    if (run.granules.count == 0) return;
    Free& free = free_[run.until];
    free.count += run.granules.count;
    auto at = free.runs.emplace(run.granules.first, run.granules.count).first;
    if (const auto next = std::next(at); next != free.runs.end() && at->first + at->second == next->first) {
      at->second += next->second;
      free.runs.erase(next);
    }
    if (at == free.runs.begin()) return;
    const auto before = std::prev(at);
    if (before->first + before->second != at->first) return;
    before->second += at->second;
    free.runs.erase(at);
  }
  std::int64_t take_of(std::int32_t until, Free& free, std::int64_t granules, std::vector<Run>& taken) {
    std::int64_t got = 0;
    while (got < granules && !free.runs.empty()) {
      const auto [first, count] = *free.runs.begin();
      const std::int64_t part = std::min(count, granules - got);
      free.runs.erase(free.runs.begin());
      if (part < count) free.runs.emplace(first + part, count - part);
      taken.push_back({.granules = {.first = first, .count = part}, .until = until});
      got += part;
    }
    free.count -= got;
    if (until == kAlways) in_use_ += got;
    return got;
  }
  void advance(std::int32_t now) {
    const auto later = returning_.upper_bound(now);
    for (auto returning = returning_.begin(); returning != later; ++returning)
      for (const Run& run : returning->second) {
        if (run.until == kAlways) in_use_ -= run.granules.count;
        insert(run);
      }
    returning_.erase(returning_.begin(), later);
    free_.erase(free_.begin(), free_.upper_bound(now));
  }

  std::vector<GranuleRange> always_;
  std::int64_t count_ = 0, in_use_ = 0, peak_ = 0;
  std::map<std::int32_t, Free> free_;                   ///< by end
  std::map<std::int32_t, std::vector<Run>> returning_;  ///< by release
};

}  // namespace tidemark::swap
