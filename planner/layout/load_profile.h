#pragma once
// The bytes needed at every moment, and the most of them during an interval.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/layout/blocks.h"

namespace tidemark::layout {

class LoadProfile {
 public:
  /// Parts of a block that live together count each for itself, so this may exceed the load of a problem with blocks.
  explicit LoadProfile(std::span<const BlockPart> parts);

  /// REQUIRES: from < to. O(log moments).
  [[nodiscard]] Bytes peak_during(std::int32_t from, std::int32_t to) const;

 private:
  std::vector<std::int32_t> moments_;  // ascending: where the load changes
  std::vector<Bytes> most_;            // a binary tree; node 1 is the root, moment m is node moments + m
};

}  // namespace tidemark::layout
