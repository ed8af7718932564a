#pragma once
// Layers in order along the stages of a schedule so that ranks are about equally busy, the embedding, heads and MTP
// modules counted: what a job would do with another schedule before comparing it. A rule, not a search
// (planner/search/placement_search.h): ranks share what the ends leave, and a layer goes to the stage that its middle
// falls into.

#include <cstdint>
#include <vector>

#include "planner/graph_build/split_schedule.h"

namespace tidemark::prices {

/// What stages are busy with, ns, any unit will do.
struct StageWork {
  std::vector<std::int64_t> layers;  ///< per layer of the model
  std::vector<std::int64_t> fixed;   ///< per stage, beside layers
};

/// Layers per stage; `shape` says which rank has which stage. `closed`: the last stage takes none. REQUIRES: as many
/// entries of `fixed` as stages, more than one stage where it is closed.
[[nodiscard]] std::vector<std::int32_t> balanced_counts(const StageWork& work, const graph_build::SplitSchedule& shape,
                                                        bool closed);

/// Of the busiest rank.
[[nodiscard]] std::int64_t busiest_rank(const StageWork& work, const graph_build::SplitSchedule& shape,
                                        const std::vector<std::int32_t>& counts);

}  // namespace tidemark::prices
