#pragma once
// What `plan --graph` answers, for people and as JSON (docs/cli.md).

#include <string>
#include <vector>

#include "core/op_list.h"
#include "planner/remat/plan.h"

namespace tidemark {

struct StepPlanReport {
  std::string file;
  const OpList* list = nullptr;
  const remat::StepPlan* plan = nullptr;       ///< nullptr: only the frontier was asked for
  std::vector<remat::FrontierPoint> frontier;  ///< empty: not asked for
  double seconds = 0;                          ///< measured
};

[[nodiscard]] std::string step_plan_text(const StepPlanReport& report);
[[nodiscard]] std::string step_plan_json(const StepPlanReport& report);

/// The execution order, one op index a line.
[[nodiscard]] std::string schedule_text(const OpSchedule& schedule);

}  // namespace tidemark
