#pragma once
// Builds a split schedule pass by pass, with the time it takes: the passes on the way of a micro-batch are asked for
// one by one, and weight gradients, which no stage waits for, fill the gaps before them. Used by v_zero_bubble.cc and
// zero_bubble.cc. Sources: Qi et al., arXiv 2401.10241 (its heuristic) and 2405.15362 (V-ZB): fill a gap as long as a
// whole weight gradient fits; where one is left that does not, let it hold up the pass if the gap would make this rank
// the one that is idle the longest. How long ranks are idle at worst is known only afterwards, so a build is repeated
// with the idle times of the one before as long as that helps (`shortest_idle`).

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planner/graph_build/pass_way.h"
#include "planner/graph_build/split_schedule.h"
#include "planner/graph_build/split_times.h"

namespace tidemark::graph_build {

class GapFiller {
 public:
  /// What a rank is given. `times` has `ranks` ranks with every chunk of `ways`; `ways` outlives the object.
  struct Setting {
    std::span<const PassWay> ways;
    std::int32_t ranks = 1;
    std::int32_t micro_batches = 1;
    const SplitTimeTable* times = nullptr;
    std::int32_t held_limit = 1;  ///< chunk passes a rank may hold
  };

  /// `earlier_idle_ns`: of an earlier build, by rank, or empty.
  GapFiller(const Setting& setting, std::vector<std::int64_t> earlier_idle_ns);

  /// Passes of this way that have run.
  [[nodiscard]] std::int32_t done(std::int32_t rank, std::size_t way) const { return at(rank).done[way]; }
  [[nodiscard]] bool is_complete(std::int32_t rank, std::size_t way) const {
    return done(rank, way) == setting_.micro_batches;
  }
  [[nodiscard]] std::int32_t held(std::int32_t rank) const { return at(rank).held; }
  /// Whether the input of the next pass of this way has been computed by all it waits for.
  [[nodiscard]] bool has_input(std::int32_t rank, std::size_t way) const;
  /// When that of micro-batch n is at the rank; 0 where it comes from the rank itself. REQUIRES: it has been computed.
  [[nodiscard]] std::int64_t arrival_ns(std::int32_t rank, std::size_t way, std::int32_t n) const;

  /// REQUIRES: has_input(rank, way), not is_complete(rank, way); a forward leaves the rank within its limit.
  void run(std::int32_t rank, std::size_t way);
  /// The oldest weight gradient that has not run. REQUIRES: there is one.
  void run_weight(std::int32_t rank);
  /// Weight gradients until one more forward is within the limit. REQUIRES: they are enough.
  void make_room(std::int32_t rank);
  /// Weight gradients in the gap before the next pass of this way; one that holds it up only if `may_delay`.
  void fill_gap(std::int32_t rank, std::size_t way, bool may_delay);
  /// All weight gradients left.
  void finish();
  /// The passes of another order, as they come. REQUIRES: nothing has run; the order is complete and of these ways,
  /// with weight gradients in the order of dX.
  void replay(const SplitSchedule& order);

  /// Idle between passes, by rank; before the first and after the last does not count.
  [[nodiscard]] std::vector<std::int64_t> idle_ns() const;
  [[nodiscard]] std::int64_t longest_idle_ns() const;
  [[nodiscard]] std::int64_t finish_ns() const;
  [[nodiscard]] std::vector<std::vector<SplitPass>> take_passes() &&;

 private:
  struct Rank {
    std::int64_t clock_ns = 0;
    std::int64_t idle_ns = 0;
    std::int32_t held = 0;
    std::vector<std::int32_t> done;              ///< [way]
    std::vector<std::vector<std::int64_t>> end;  ///< [way][micro-batch] of those done, ns
    std::vector<SplitPass> weights;              ///< in the order of dX
    std::size_t weights_done = 0;
    std::vector<SplitPass> passes;
  };

  [[nodiscard]] const Rank& at(std::int32_t rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Rank& at(std::int32_t rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const SplitTimes& times(std::int32_t rank, std::int32_t chunk) const {
    return setting_.times->chunks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
  }
  [[nodiscard]] bool replay_next(std::int32_t rank, const SplitPass& pass);
  /// How much longer the rank may be idle before its idle time is the longest, now or in the earlier build.
  [[nodiscard]] std::int64_t idle_left_ns(std::int32_t rank) const;

  Setting setting_;
  std::vector<std::int64_t> earlier_idle_ns_;
  std::vector<Rank> ranks_;
};

/// `build(earlier_idle_ns)` again and again with the idle times of the last, while the longest gets shorter.
template <class Build>
[[nodiscard]] GapFiller shortest_idle(const Build& build) {
  GapFiller best = build(std::vector<std::int64_t>{});
  while (true) {
    GapFiller next = build(best.idle_ns());
    if (next.longest_idle_ns() >= best.longest_idle_ns()) return best;
    best = std::move(next);
  }
}

}  // namespace tidemark::graph_build
