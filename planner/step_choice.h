#pragma once
// Which rule's schedule each rank of a pipeline takes, so that the step is shortest. The least added time on every rank
// is not always that: recomputed communication takes its lane from that of other passes, and ranks that add more to
// some micro-batches than to others wait for one another.

#include <cstdint>
#include <vector>

#include "core/result.h"
#include "planner/planner.h"

namespace tidemark::plan {

struct StepChoice {
  std::vector<const Rule*> rules;  ///< by rank; null: the rank's own plan
  std::int64_t own_step_ns = 0;    ///< with every rank's own plan
  std::int64_t step_ns = 0;        ///< with the rules chosen
};

/// Plays the step with all ranks by one rule wherever they have an offer of it, and from the shortest of those with
/// single ranks exchanged, within a number of tasks played. A rule by which the compute lane of one rank alone takes as
/// long is passed over. `ranks`: all of a pipeline, by rank, each of which fits; `nominal`: what they were planned on.
/// O(tasks) memory. Errors: those of simulate_step and of the scheduler.
[[nodiscard]] Result<StepChoice> choose_schedules(const PlanRequest& request, const std::vector<RankPlan>& ranks,
                                                  const simulate::StepTiming& nominal);

/// What a rank does by a schedule of its graph, as the step is played.
[[nodiscard]] simulate::RankWork played_work(const PlanRequest& request, const RankPlan& plan,
                                             const Schedule& schedule);

/// The step of what ranks are planned to do. Errors: those of simulate_step.
[[nodiscard]] Result<std::int64_t> played_step_ns(const PlanRequest& request, const std::vector<RankPlan>& ranks);

}  // namespace tidemark::plan
