#pragma once
// What each lane of a rank does when, as columns for the report's pipeline view. Simulated times.
//
//   sites    columns `chunk`, `layer`, `batch` (-1: none), one row a site of the graph
//   phases   per op template (OpPhase)
//   storages per storage template [name, StorageRole]
//   finish   ns at which the rank's last task ends
//   lanes    per lane that has tasks: `lane`, `count`, and a row a task in the order of the lane: `gap` (idle ns before
//            it), `ns`, `what` (op template; of a copy the storage template), `site` (delta), `again` (1: recomputed)
//
// The compute lane has every task, so that its rows count the compute clock (core/schedule.h); of other lanes those
// that take no time (receives) are left out. Every column is packed_column.h text.

#include <nlohmann/json_fwd.hpp>

#include "planner/planner.h"

namespace tidemark::formats {

/// Deterministic; O(tasks). `null` where the plan has no timeline of its tasks.
[[nodiscard]] nlohmann::ordered_json lane_columns(const plan::RankPlan& rank);

}  // namespace tidemark::formats
