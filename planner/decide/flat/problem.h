#pragma once
// A graph of one site in flat arrays, with what follows from it alone: who writes what, what may run again and until
// when, and the touches that hold storages in memory. Built once, then read-only. Private to the flat search.
//
// Position of a run: its *key* (stage, round, op). The first run of op t ends stage t; a second run of v in stage t
// comes before it, in one of some rounds: within a round second runs go in list order, and what wants another order, or
// the same op twice, takes another round. So keys order all runs, and every schedule can be written with them.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/graph.h"
#include "core/liveness.h"
#include "core/machine.h"
#include "planner/cost/copy_cost.h"
#include "planner/simulate/simulator.h"

namespace tidemark::decide::flat {

using Key = std::uint64_t;

constexpr int kOpBits = 28, kRoundBits = 8;
constexpr std::int32_t kMostKeyedOps = std::int32_t{1} << kOpBits;
constexpr std::int32_t kFirstRunRound = (1 << kRoundBits) - 1;
/// Of second runs, where nothing asks for another; in the middle, so that others can come before and behind.
constexpr std::int32_t kUsualRound = 4;

/// The round counts for second runs only. REQUIRES: op <= stage < kMostKeyedOps, 0 <= round < kFirstRunRound.
constexpr Key key_of(std::int32_t stage, std::int32_t op, std::int32_t round = kUsualRound) {
  const Key in_stage = static_cast<std::uint32_t>(op == stage ? kFirstRunRound : round);
  return (((static_cast<Key>(static_cast<std::uint32_t>(stage)) << kRoundBits) | in_stage) << kOpBits) |
         static_cast<std::uint32_t>(op);
}
/// The first of all runs: what is resident from the start is there from then on.
constexpr Key kStart = key_of(0, 0);
/// Not above any run of the stage.
constexpr Key stage_begin(std::int32_t stage) {
  return static_cast<Key>(static_cast<std::uint32_t>(stage)) << (kRoundBits + kOpBits);
}
constexpr std::int32_t stage_of(Key key) {
  return static_cast<std::int32_t>(key >> (kRoundBits + kOpBits));
}
constexpr std::int32_t round_of(Key key) {
  return static_cast<std::int32_t>((key >> kOpBits) & ((Key{1} << kRoundBits) - 1));
}
constexpr std::int32_t op_of(Key key) {
  return static_cast<std::int32_t>(key & ((Key{1} << kOpBits) - 1));
}
constexpr bool is_first_run(Key key) {
  return stage_of(key) == op_of(key);
}

/// Rows of a list of lists in one array.
struct Rows {
  std::vector<std::int32_t> first{0};
  std::vector<std::int32_t> items;
  void add(const std::vector<std::int32_t>& row) {
    items.insert(items.end(), row.begin(), row.end());
    first.push_back(static_cast<std::int32_t>(items.size()));
  }
  [[nodiscard]] std::span<const std::int32_t> operator[](std::int32_t row) const {
    const auto begin = static_cast<std::size_t>(first[static_cast<std::size_t>(row)]);
    const auto end = static_cast<std::size_t>(first[static_cast<std::size_t>(row) + 1]);
    return {items.data() + begin, end - begin};
  }
};

/// What a runtime can do beyond running pure ops again.
struct RecomputeRules {
  bool random = true;       ///< restores random state
  bool collective = false;  ///< all devices of a group carry out the same schedule
  [[nodiscard]] bool allow(const Recipe& recipe) const {
    return recipe.pure && (random || !recipe.needs_random_state) && (collective || !recipe.collective);
  }
};

/// Storages and ops as they are numbered in the graph; transients of ops (temporary storages that one op writes and
/// nothing reads) count with their op, not as storages.
struct Problem {
  /// Borrowed arguments must outlive the problem. REQUIRES: is_flat(graph). `host_bytes`: for what is swapped out, at
  /// any time; kept only where copies take time.
  Problem(const Graph& graph, const Machine& machine, RecomputeRules rules = {},
          Bytes host_bytes = std::numeric_limits<Bytes>::max());

  const Graph* graph;
  const Machine* machine;
  RecomputeRules rules;
  Bytes host_bytes;
  Liveness liveness;
  simulate::Timeline nominal;       ///< per op, everything kept
  std::vector<RecipeId> recipe_of;  ///< per op: what runs it again; kNone: nothing may
  bool has_link = false;            ///< copies take time on a link beside the ops
  std::int32_t op_count = 0, storage_count = 0;
  // per op
  Rows reads, writes;
  std::vector<std::int64_t> cost;
  std::vector<Bytes> transient;
  /// Stages in which the op may run again: those from rerun_from to rerun_until that take runs; none where it may not.
  std::vector<std::int32_t> rerun_from, rerun_until;
  std::vector<std::int32_t> last_taking;  ///< latest stage up to this one that takes runs of other ops; -1: none
  // per storage
  std::vector<Bytes> bytes;
  std::vector<std::int32_t> producer;  ///< of a result; -1: changed in place, or resident from the start
  std::vector<Key> begin;              ///< first touch; kStart: that, or resident from the start
  std::vector<std::vector<Key>> uses;  ///< keep-all: reads, pins, and writes in place, ascending
  std::vector<Key> hold_until;         ///< a pin: no drop before it; 0: none
  std::vector<std::uint8_t> swappable;
  std::vector<std::uint8_t> changed;            ///< more than one version over the step
  std::vector<std::int64_t> page_in, page_out;  ///< what ops lose to a copy
  std::vector<cost::CopyCost> copy_in, copy_out;
  /// How long copies of pages take, and when ops begin with everything kept and nothing run again, which is when there
  /// is least time for them. Empty: copies take no time (planner/decide/flat/link_schedules.h).
  std::vector<std::int64_t> out_time, in_time;  // per storage
  std::vector<std::int64_t> stage_start;        // per op

  [[nodiscard]] bool may_recompute(std::int32_t op, std::int32_t stage) const {
    const auto v = static_cast<std::size_t>(op);
    return rerun_from[v] <= stage && stage <= rerun_until[v] && takes_runs(stage);
  }
  /// Whether ops may run again right before the op of the stage.
  [[nodiscard]] bool takes_runs(std::int32_t stage) const {
    return last_taking[static_cast<std::size_t>(stage)] == stage;
  }
  [[nodiscard]] bool has_windows() const { return !stage_start.empty(); }
  /// Where a page out of what was last touched at `from` is over. REQUIRES: has_windows(). Ascends with `from`.
  [[nodiscard]] Key gone_from(std::int32_t storage, Key from) const;
  /// Where a page in for `use` has to begin; not behind the begin of its stage. REQUIRES: has_windows(). kStart:
  /// nowhere late enough.
  [[nodiscard]] Key back_from(std::int32_t storage, Key use) const;
  [[nodiscard]] std::int64_t total_cost() const;
};

/// Whether the flat search plans the graph: one site, all ops on the compute lane, recipes of one step.
[[nodiscard]] bool is_flat(const Graph& graph);

}  // namespace tidemark::decide::flat
