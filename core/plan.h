#pragma once
// What a policy answers: which recipes run again and which storages are absent from device memory, both in program
// order. What is not listed is kept. Says nothing of tasks, waits or addresses: the scheduler makes those.

#include <compare>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/ids.h"

namespace tidemark {

/// A point of program order: an op, or one of the recipe runs placed before it.
struct PlanPoint {
  static constexpr std::int32_t kOpItself = std::numeric_limits<std::int32_t>::max();
  OpId op = kNone<OpId>;
  std::int32_t run = kOpItself;  ///< row of Plan::runs
  /// Ahead of every recipe run before the op.
  [[nodiscard]] static PlanPoint ahead_of(OpId op) { return {.op = op, .run = 0}; }
  friend auto operator<=>(const PlanPoint&, const PlanPoint&) = default;
};

struct Plan {
  /// One run of a recipe at a site. Steps up to the last communication step are placed before `start`, the rest before
  /// `need` (the same op unless communication is issued ahead to be hidden).
  struct Run {
    SiteId site = kNone<SiteId>;
    RecipeId recipe = kNone<RecipeId>;
    OpId start = kNone<OpId>;
    OpId need = kNone<OpId>;
    friend bool operator==(const Run&, const Run&) = default;
  };
  /// A storage whose residency ends behind `after`, without a copy: a recipe restores it later.
  struct Drop {
    StorageId storage = kNone<StorageId>;
    PlanPoint after;
    friend bool operator==(const Drop&, const Drop&) = default;
  };
  /// A storage that is in host memory for a while. One that persists may rest there between steps: its residency in
  /// host memory then lasts the whole step, its first row only comes in (no `ready`, no `released`, no copy out), and
  /// its last only goes out (no `prefetch`, no `needed`, not in swap_in_order).
  struct Swap {
    StorageId storage = kNone<StorageId>;
    PlanPoint ready;         ///< last touch before: the copy out is issued behind it
    PlanPoint released;      ///< waits for the copy out (on the compute lane); device bytes are free from here
    PlanPoint prefetch;      ///< the copy in is issued ahead of this and waits for the compute task before it
    PlanPoint needed;        ///< reads the storage again
    bool copies_out = true;  ///< false: the copy that the swap of this storage before made is still good
    [[nodiscard]] bool begins() const { return ready.op == kNone<OpId>; }
    [[nodiscard]] bool ends() const { return needed.op == kNone<OpId>; }
    friend bool operator==(const Swap&, const Swap&) = default;
  };

  std::vector<Run> runs;    ///< ascending `start`; at one op in the order in which they run
  std::vector<Drop> drops;  ///< ascending `after`
  std::vector<Swap> swaps;  ///< ascending `ready` (order of the D2H lane)
  std::vector<std::int32_t>
      swap_in_order;  ///< rows of `swaps` that come in, in the order of the H2D lane: ascending `prefetch`
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace tidemark
