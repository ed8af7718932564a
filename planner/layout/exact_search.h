#pragma once
// Can blocks be packed as low as a capacity? Packs, or proves that nobody can, or gives up.

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/layout/blocks.h"
#include "planner/layout/exact_tree.h"

namespace tidemark::layout {

struct FitLimits {
  /// About a microsecond each on a current core. The answer depends on nothing else, whatever the thread count.
  std::int64_t work = 1'000'000;
  /// Asked every few hundred units, from any thread; then the answer is undecided.
  std::function<bool()> should_stop;
};

struct FitAnswer {
  FitStatus status = FitStatus::undecided;
  std::vector<Bytes> addresses;  ///< per block, if placed
  std::int64_t work = 0;         ///< spent; all there was, where a set is too large to begin with
};

/// What never meets, directly or through others, is packed on its own, and what looks the same once.
[[nodiscard]] FitAnswer fit(const Blocks& blocks, Bytes capacity, const FitLimits& limits);

}  // namespace tidemark::layout
