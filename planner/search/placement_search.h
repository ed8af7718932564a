#pragma once
// Where layers and the main output head sit: of all ways to cut a model's layers into the stages of a pipeline, in
// order, the one whose schedule of passes ends first (simulate/pass_clock.h). Stages may hold any number of layers,
// also none; MTP modules stay with their heads on the last stage, and the main head is there or, where MTP modules
// follow it, with the last layer.
//
// Every path through the schedule bounds the step of every placement by a sum over stages, and a sum over stages is
// least for a placement that a dynamic program finds. So mixtures of paths give bounds and, by the placements that
// reach them, candidates; single layers moved between stages improve those, and a depth-first search with the same
// paths proves the best of a small pipeline. Work is counted, not timed: the result does not depend on the machine.

#include <cstdint>
#include <vector>

#include "core/result.h"
#include "planner/graph_build/job_spec.h"
#include "planner/search/placement.h"
#include "planner/simulate/pass_times.h"

namespace tidemark::search {

struct PlacedStep {
  Placement placement;
  std::int64_t step_ns = 0;  ///< of PassClock::step_ns
};

struct PlacementEffort {
  int bounding_rounds = 160;        ///< placements that mixtures of paths lead to; 0: only even stages, no bound
  std::int64_t work = 10'000'000;   ///< passes played, and sums over stages in their stead
  std::int64_t branches = 200'000;  ///< of the depth-first search
  std::size_t kept = 64;            ///< placements returned
};

struct PlacementSearchResult {
  std::vector<PlacedStep> best;  ///< by step, then by placement; all distinct; never empty
  std::int64_t bound_ns = 0;     ///< no placement has a shorter schedule of passes
  std::int64_t played = 0;       ///< placements whose passes were played
  [[nodiscard]] bool proven() const { return best.front().step_ns <= bound_ns; }
};

/// `job` gives everything but the placement. Errors: those of building a chunk's graph; bad_input: the job is
/// not is_searchable. REQUIRES: find_problems(job) is
/// empty.
[[nodiscard]] Result<PlacementSearchResult> search_placements(const graph_build::JobSpec& job,
                                                              simulate::ChunkTimes& times,
                                                              const PlacementEffort& effort = {});

}  // namespace tidemark::search
