#pragma once
// What each storage should hold while a step is submitted. Every write by an op makes a new version; a recompute writes
// the version the storage had, since that is what it restores; copies change nothing. Submission order is an order in
// which the step could run alone, so the version of a storage at submission is the one a task means.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace tidemark {

class StorageVersions {
 public:
  explicit StorageVersions(std::int32_t rank) : rank_(rank) {}

  void new_write(StorageId storage) { ++version(storage); }
  void restored(StorageId storage) { version(storage) = std::max(version(storage), 1); }
  [[nodiscard]] std::int32_t version_of(StorageId storage) { return version(storage); }
  /// Back to a version it had: rows still to be written were not written since.
  void set_version(StorageId storage, std::int32_t known) { version(storage) = known; }
  /// Nothing wrote it this step.
  [[nodiscard]] bool unwritten(StorageId storage) { return version(storage) == 0; }
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

}  // namespace tidemark
