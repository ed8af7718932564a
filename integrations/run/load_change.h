#pragma once
// Loads as asked for on the command line, per site.

#include <span>
#include <vector>

#include "integrations/run/run_plan.h"
#include "planner/graph_build/site_loads.h"

namespace tidemark::run {

/// The loads of every site of the rank, by its number.
[[nodiscard]] std::vector<graph_build::BuiltLoad> loads_of(const plan::RankPlan& rank, const LoadChange& change);

/// Errors (bad_input): the change would change nothing, since no rank has storages that follow the load, or none behind
/// `from_op`; says what there is.
[[nodiscard]] Status check_load_change(std::span<const plan::RankPlan> ranks, const LoadChange& change);

}  // namespace tidemark::run
