#pragma once
// The holes of a static plan, offered to routed storages that are larger than planned (core/dynamic_region.h).
//
//   granule                                      A granule below the height of the device arena that no residency
//    7   |aaaa|......................|bbbbbb|    touches from one half-step of the compute clock to another is a
//    6   |aaaa|....sssssssssssss.....|bbbbbb|    hole. A routed stay s that begins and ends within it may stand
//    5   |cccccccccccccc|....................    there instead of in the dynamic region.
//        0                     compute clock
//
// Who gets which hole is settled beforehand, for all routed stays at one expert load: what a storage takes then depends
// on its own load alone, whatever the others do, and the sum over all of them stays a bound (core/dynamic_region.h).
// The rule, which is part of the meaning of a plan: stays in order of their begin take, as long as the dynamic region
// alone would be too small somewhere during their life, free granules whose hole ends soonest after them.
// A Program does not list them: planner, checker and runtime assign them alike at Program::contingency_limit_f.
//
// Stays. A routed residency is one stay, [acquire, release), or from the begin of a section that keeps it
// (core/dispatch_section.h), which may run in chunks or not; every contingency on it ends one and begins another. Holes
// go only to residencies whose contingencies all are local and triggered by the planned size: an oversized storage
// then always has the stays they were assigned for.
//
// Threads: none. Cost: O(routed stays) for a load that the dynamic region carries alone. Else the holes are found once,
// O(r * g) for r residencies over g runs of granules that share their occupants, and an assignment is O(holes + runs).

#include <cstdint>
#include <span>
#include <vector>

#include "core/dynamic_region.h"
#include "core/program.h"

namespace tidemark {

/// Half-steps [begin, end) in which a routed storage is in memory.
struct RoutedStay {
  std::int32_t routed = 0;  ///< row of Program::routed
  std::int32_t begin = 0;
  std::int32_t end = 0;
  bool takes_holes = true;
  friend bool operator==(const RoutedStay&, const RoutedStay&) = default;
};

/// Per half-step: the most granules of the dynamic region that can be taken there while no site's load exceeds `load`
/// and every section runs in chunks that asks for it. `holes` are assigned.
class HoleGranules;
[[nodiscard]] std::vector<std::int64_t> collective_demand(const Program& program, const HoleGranules& holes,
                                                          double load);

/// Stays of all routed residencies, ascending (routed, begin).
[[nodiscard]] std::vector<RoutedStay> routed_stays(const Program& program);

class HoleGranules {
 public:
  /// REQUIRES: routed residencies are in the first arena, ids are in range. Keeps a reference to the program, but reads
  /// no more of it than schedule, layout, rows of `routed`, sections and their buffers, and collective_limit_f.
  HoleGranules(const Program& program, std::vector<RoutedStay> stays);
  explicit HoleGranules(const Program& program) : HoleGranules(program, routed_stays(program)) {}

  /// Assigns holes for `load`. True: with them the dynamic region suffices at it everywhere.
  [[nodiscard]] bool assign(double load);
  /// What assign(load) would say, sooner; nothing is assigned afterwards.
  [[nodiscard]] bool suffices(double load);

  [[nodiscard]] const std::vector<RoutedStay>& stays() const { return stays_; }
  /// Of the last assignment: the granules of a stay, kPlanGranule each, in no particular order.
  [[nodiscard]] std::span<const GranuleRange> of(std::size_t stay) const;
  [[nodiscard]] std::int64_t count(std::size_t stay) const { return taken_[stay]; }
  /// Index of the stay of this row of `routed` that begins there; -1: none. REQUIRES: the row exists.
  [[nodiscard]] std::int32_t find(std::int32_t routed, std::int32_t begin) const;

 private:
  /// Granules that nobody touches from `from` until `until`.
  struct Hole {
    std::int32_t from = 0;
    std::int32_t until = 0;
    GranuleRange granules;
  };
  class Sweep;

  [[nodiscard]] bool find_wanted(double load);
  void find_holes();
  bool serve_stays(bool stop_when_short);
  void group_runs();
  [[nodiscard]] std::vector<std::int32_t> earliest_ends() const;

  const Program& program_;
  std::vector<RoutedStay> stays_;
  std::int32_t clock_end_ = 0;
  std::int64_t region_ = 0;
  std::vector<std::int32_t> first_stay_;  ///< CSR per routed
  std::vector<std::int32_t> order_;       ///< stays by begin
  bool searched_ = false;
  std::vector<Hole> holes_;              ///< ascending from; found when first needed
  std::vector<std::int64_t> wanted_;     ///< per stay: granules beyond its slot
  std::vector<std::int64_t> demand_;     ///< per half-step: change of the granules taken of the dynamic region
  std::vector<std::int32_t> shortage_;   ///< per half-step: those before it at which the region alone is too small
  std::vector<std::int64_t> taken_;      ///< per stay
  std::vector<std::int32_t> first_run_;  ///< CSR per stay
  std::vector<GranuleRange> runs_;
  std::vector<std::int32_t> ends_;  ///< per stay of the order: of what it took, while stays take
};

}  // namespace tidemark
