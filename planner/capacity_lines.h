#pragma once
// A job dropless and under capacities, planned one after the other.

#include <functional>
#include <vector>

#include "core/result.h"
#include "planner/planner.h"

namespace tidemark::plan {

struct CapacityChoice {
  double factor = 0;  ///< 0: dropless
  graph_build::MoeSpec::CapacityLevel level = graph_build::MoeSpec::CapacityLevel::expert;
  bool pads = false;
  friend bool operator==(const CapacityChoice&, const CapacityChoice&) = default;
};

/// Dropless, then capacity factors 1.0 to 1.5 of experts, then of devices.
[[nodiscard]] std::vector<CapacityChoice> capacity_choices(bool pads);

/// `job` with that capacity in place of its own.
[[nodiscard]] graph_build::JobSpec with_capacity(graph_build::JobSpec job, const CapacityChoice& choice);

/// Of one plan, over its ranks.
struct CapacityLine {
  CapacityChoice choice;
  double least_load = 1, most_load = 1;  ///< expert load that memory is planned for
  Bytes kept_bytes = 0;                  ///< the highest peak with everything kept, reserves included, before packing
  Bytes peak_bytes = 0;                  ///< the highest planned
  int ranks = 0, fitting = 0;
  StepFigures step;  ///< modelled
};

/// A plan for each choice, of figures only. `request.ranks` is empty: a step waits for all. `on_line`: called before
/// each plan with its number, from this thread; may be empty. Errors: those of plan_step.
[[nodiscard]] Result<std::vector<CapacityLine>> capacity_lines(const PlanRequest& request,
                                                               const std::vector<CapacityChoice>& choices,
                                                               const std::function<void(int done)>& on_line);

}  // namespace tidemark::plan
