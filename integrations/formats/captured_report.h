#pragma once
// What a plan of a captured step has besides what every plan has: costs in the units of its file, how good the answer
// is, the order of runs and the swaps between them, all of it derived from the Program.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planner/planner.h"

namespace tidemark::formats {

/// Positions count the runs of ops, first and recomputed ones, in the order of the compute lane.
struct RunList {
  struct Swap {
    std::int32_t storage = 0;
    std::int32_t after = 0;   ///< position of its last touch before it leaves
    std::int32_t before = 0;  ///< position of the run that reads it again
    bool copied_out = false;  ///< false: the copy of an earlier swap serves again
  };
  std::vector<std::int32_t> order;  ///< op by position
  std::vector<Swap> swaps;          ///< by storage, then position
};
[[nodiscard]] RunList run_list_of(const plan::RankPlan& plan);

/// One op a line, in order of execution.
[[nodiscard]] std::string order_text(const RunList& runs);

/// REQUIRES: request.step, one rank.
[[nodiscard]] std::string captured_text(const plan::PlanRequest& request, const plan::PlanOutcome& outcome);
[[nodiscard]] nlohmann::ordered_json captured_json(const plan::PlanRequest& request, const plan::PlanOutcome& outcome);

/// `1.5 J`, `0.25 ms`; a plain number where the file's costs have no unit.
[[nodiscard]] std::string cost_text(const GivenCosts& costs, std::int64_t quanta);

}  // namespace tidemark::formats
