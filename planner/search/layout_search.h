#pragma once
// Which layout of a job runs fastest on a number of devices and fits them. Best first: layouts are looked at in the
// order of an estimate of their step (pass_times.h), until the bound of what is left is above the slowest of the best
// found: then the ranking is proven, with respect to the model. To look at one is to simulate its step with everything
// kept, which a plan only adds to and which takes a hundredth of a plan or less; those alone that may be among the best
// by it are carried through the planner, worst ranks first (layout_ranking.h).
//
// On request the best placement of layers for the degrees of every layout that is looked at is searched as well
// (placement_search.h), and looked at in its turn where the space does not have it. What is proven is proven of the
// space alone.
//
// Every figure in the result is that of plan_step; nothing is extrapolated. Work is bounded by a number of layouts
// looked at, never by the clock; the result does not depend on the thread count, nor on what was known before.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/planner.h"
#include "planner/search/layout_space.h"

namespace tidemark::search {

/// A layout that was carried through the planner. Times of the modelled step, in ns; shares are means over ranks.
struct LayoutFigures {
  bool fits = false;
  std::string reason;    ///< why it does not fit; times are 0 then
  Bytes peak_bytes = 0;  ///< of the worst rank
  std::int64_t step_ns = 0;
  std::int64_t compute_ns = 0;        ///< of the step itself
  std::int64_t memory_ns = 0;         ///< recompute, copies and their exposure
  std::int64_t communication_ns = 0;  ///< exposed
  std::int64_t imbalance_ns = 0;      ///< the busiest rank's compute above the mean
  std::int64_t bubble_ns = 0;         ///< the rest: waiting for other ranks
  friend bool operator==(const LayoutFigures&, const LayoutFigures&) = default;
};

struct RankedLayout {
  std::size_t id = 0;  ///< position in the space
  SearchLayout layout;
  std::int64_t bound_ns = 0;  ///< its step takes at least this
  LayoutFigures figures;
};

struct LayoutSearchRequest {
  const plan::PlanRequest& plan;  ///< its layout is replaced; its load, or the mean of its job, is every layout's
  const LayoutSpace& space;
  std::size_t top = 10;           ///< ranked; >= 1
  std::size_t most_planned = 48;  ///< layouts looked at, planned where need be; the job's own comes on top
  bool prune = true;              ///< false: plans every layout (tests)
  bool place = false;             ///< also with the placement found for the degrees of what is looked at
  /// Figures of an earlier search with the same request, by layout_text.
  std::map<std::string, LayoutFigures> known;
  std::function<void(const SearchLayout&, const LayoutFigures&)> finished;  ///< in order, from the calling thread
  std::function<void(int done, int total)> progress;                        ///< from the calling thread
};

struct LayoutSearchResult {
  std::vector<RankedLayout> best;     ///< that fit, fastest first; at most `top`
  std::optional<RankedLayout> given;  ///< the job's own layout, where it is in the space
  std::size_t given_rank = 0;         ///< 1-based among those planned that fit; 0: it does not fit
  // Each layout is counted in one of over_static, bounded_away, planned and below.
  std::size_t over_static = 0;   ///< what no plan can offload of static memory is above the budget
  std::size_t bounded_away = 0;  ///< bound, or step with everything kept, not below the step of the last of `best`
  std::size_t planned = 0, misfit = 0;
  std::size_t placed = 0;  ///< of these and of bounded_away: beyond the space, with a placement found for their degrees
  std::size_t below = 0;   ///< may be faster than the last of `best`
  std::size_t faster_than_given = 0;  ///< of `below`: bounded below the job's own layout
  /// No layout left can be faster than the last of `best`, or fit where `best` has fewer than `top`.
  [[nodiscard]] bool proven() const { return below == 0; }
};

/// Errors: those of plan_step.
[[nodiscard]] Result<LayoutSearchResult> search_layouts(const LayoutSearchRequest& request);

/// Of a plan of all ranks.
[[nodiscard]] LayoutFigures layout_figures(const plan::PlanOutcome& outcome);

/// What a layout spends most on besides its compute: "memory", "communication", "imbalance" or "bubble".
[[nodiscard]] std::string binding_of(const LayoutFigures& figures);

}  // namespace tidemark::search
