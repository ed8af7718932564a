#pragma once
// Where the modelled step goes: what `tidemark simulate` prints.

#include <optional>
#include <string>

#include "planner/gap_report.h"
#include "planner/planner.h"

namespace tidemark::formats {

/// The published step and the gap to it.
struct Against {
  plan::PublishedStep published;
  plan::GapReport gap;
};

/// Step, bubble, exposed communication and copies, recompute, MFU and tokens per second; a table of ranks; the gap to a
/// published step where one is given.
[[nodiscard]] std::string timing_summary(const plan::PlanRequest& request, const plan::PlanOutcome& outcome,
                                         const std::optional<Against>& against);

/// The object of plan_json with `time` per rank and `against`.
[[nodiscard]] std::string timing_json(const plan::PlanRequest& request, const plan::PlanOutcome& outcome,
                                      double seconds, const std::optional<Against>& against);

}  // namespace tidemark::formats
