#pragma once
// What a choice means in program order: which recipes run before which ops, and between which ops copies run. The
// bridge from the decision core (which prices it) to the scheduler (which carries it out).

#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace tidemark {

/// One run of a recipe at a site. Steps up to the last communication step are placed before `start`, the rest before
/// `need` (the same op unless communication is issued ahead to be hidden).
struct RecomputeRun {
  SiteId site = kNone<SiteId>;
  RecipeId recipe = kNone<RecipeId>;
  OpId start = kNone<OpId>;
  OpId need = kNone<OpId>;
};

/// The copies of one swapped gap.
struct SwapRun {
  StorageId storage = kNone<StorageId>;
  OpId ready = kNone<OpId>;     ///< last touch before the gap: the copy out is issued after it
  OpId released = kNone<OpId>;  ///< compute op that waits for the copy out; device bytes are free from here
  OpId prefetch = kNone<OpId>;  ///< the copy in is issued before this op and waits for the compute op before it
  OpId needed = kNone<OpId>;    ///< first op (or op whose recompute) that reads the storage again
};

struct Placement {
  /// Storages whose residency ends with the gap that starts after `before` (recomputed later or swapped).
  struct Drop {
    StorageId storage = kNone<StorageId>;
    OpId before = kNone<OpId>;
  };
  std::vector<Drop> drops;                  ///< of recomputed gaps, ascending `before`
  std::vector<RecomputeRun> recomputes;     ///< ascending `start`; at one op in dependency order
  std::vector<SwapRun> swaps;               ///< ascending `ready` (order of the D2H lane)
  std::vector<std::int32_t> swap_in_order;  ///< rows of `swaps` in the order of the H2D lane, ascending `prefetch`
};

}  // namespace tidemark
