#pragma once
// What each storage should hold while a step runs, for verification. A storage holds version 0 before the step; every
// write by an op makes the next version; a recompute writes the version the storage had, since that is what it
// restores; copies change nothing.
//
// Which version a task means follows from the numbers of the ops alone, not from the order of submission: an op reads
// what the ops of lower number have written. A Program that runs ops in another order is found out by its contents.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/schedule.h"

namespace tidemark::swap {

struct TouchVersions {
  std::vector<std::int32_t> of_touch;  ///< per Schedule::touches: the version read or written; 0 for copies
  std::vector<std::int32_t> at_end;    ///< per storage: when the step is over

  [[nodiscard]] std::span<const std::int32_t> of_task(const Schedule& schedule, TaskId task) const {
    const auto first = static_cast<std::size_t>(schedule.tasks[row(task)].first_touch);
    return {of_touch.data() + first, schedule.touches_of(task).size()};
  }
};

/// O(tasks log tasks + touches).
[[nodiscard]] TouchVersions versions_of(const Schedule& schedule);

/// The versions that tasks submitted last have met, as patterns.
class StorageVersions {
 public:
  explicit StorageVersions(std::int32_t rank) : rank_(rank) {}

  void set(StorageId storage, std::int32_t known) { version(storage) = known; }
  void restored(StorageId storage) { version(storage) = std::max(version(storage), 1); }
  /// Of the pattern it holds now: differs between ranks, storages, versions and steps.
  [[nodiscard]] std::uint64_t seed(StorageId storage) {
    const auto v = static_cast<std::uint64_t>(version(storage));
    return (static_cast<std::uint64_t>(rank_) << 56) ^ (static_cast<std::uint64_t>(row(storage)) << 24) ^ v ^
           (step_ * kMix);
  }
  void restart() {
    std::fill(versions_.begin(), versions_.end(), 0);
    ++step_;
  }

 private:
  std::int32_t& version(StorageId storage) {
    if (row(storage) >= versions_.size()) versions_.resize(row(storage) + 1, 0);
    return versions_[row(storage)];
  }
  /// Odd, so that steps do not repeat; its bits reach those of rank and storage.
  static constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;
  std::int32_t rank_;
  std::uint64_t step_ = 0;
  std::vector<std::int32_t> versions_;
};

}  // namespace tidemark::swap
