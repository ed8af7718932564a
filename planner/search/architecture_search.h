#pragma once
// Which architectures of a space train fastest on a number of devices: each with the best layout found for it, and of
// those that no other beats in both speed and active parameters the plans.
//
// Layouts of one architecture are looked at in the order of a bound, the compute of the mean rank, and passed over
// once it is above the best found. What is looked at is priced by sums over layers (simulate/layer_sums.h) on even
// stages with the main head where it is faster. The Pareto set and the job's own model are placed (auto_placement.h)
// and carried through the planner, in turn, until no member is without a plan; only those figures are a plan's.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/planner.h"
#include "planner/search/architecture_space.h"
#include "planner/search/auto_placement.h"
#include "planner/search/layout_search.h"

namespace tidemark::search {

/// A layout by its schedule of passes.
struct PricedLayout {
  SearchLayout layout;  ///< of Spread::found
  std::int64_t step_ns = 0;
  Bytes spare_bytes = 0;
};

/// One architecture with the best of its layouts. Modelled.
struct ArchitectureFigures {
  std::size_t id = 0;             ///< in the space
  bool fits = false;              ///< some layout's static memory and layers' inputs fit, or its plan where it has one
  SearchLayout layout;            ///< of Spread::found
  std::int64_t step_ns = 0;       ///< its schedule of passes; of a plan where there is one
  std::int64_t bound_ns = 0;      ///< no layout tried is faster than the least of these (proven)
  Bytes spare_bytes = 0;          ///< of the worst rank: what static memory and inputs of layers in flight leave
  std::int32_t looked_at = 0;     ///< layouts priced
  std::int32_t bounded_away = 0;  ///< layouts whose bound is above the best
  std::int32_t over_memory = 0;   ///< layouts that leave nothing to spare
  std::map<std::string, std::int64_t> refused;  ///< layouts against a rule, by its key
  std::optional<LayoutFigures> planned;
  std::vector<PricedLayout> slower;  ///< those priced that were not taken yet, for where a plan does not fit
};

struct ArchitectureSearchRequest {
  const plan::PlanRequest& plan;  ///< its model is replaced; its load, or the mean of its job, is every one's
  const ArchitectureSpace& space;
  std::int64_t devices = 1;
  LayoutRanges
      layouts;  ///< empty lists: the job's own degree. Switches of the schedule and of experts stay as they are
  ArchitectureBounds bounds;
  std::size_t most_planned = 16;                      ///< of the Pareto set, the fastest first
  bool prune = true;                                  ///< false: prices every layout (tests)
  std::function<void(int done, int total)> progress;  ///< from any thread
};

struct ArchitectureSearchResult {
  std::vector<ArchitectureFigures> fitting;  ///< fastest first by tokens a second; within the bound on the step
  std::vector<std::size_t> pareto;           ///< positions in `fitting`, fastest first
  std::optional<std::size_t> given;          ///< position of the job's own model in `fitting`
  std::int64_t misfit = 0;                   ///< architectures none of whose layouts fits
  std::int64_t over_step = 0;                ///< slower than the bound on the step
  std::int64_t looked_at = 0, bounded_away = 0, over_memory = 0;  ///< layouts of all
  std::map<std::string, std::int64_t> refused;                    ///< layouts of all against a rule, by its key
};

/// Errors: those of plan_step and of building a chunk's graph. The result does not depend on the thread count.
[[nodiscard]] Result<ArchitectureSearchResult> search_architectures(const ArchitectureSearchRequest& request);

}  // namespace tidemark::search
