#pragma once
// Loads as asked for on the command line, per site.

#include <functional>

#include "integrations/run/run_plan.h"

namespace tidemark {

/// The load of every site of the rank, by its number.
[[nodiscard]] std::vector<double> loads_of(const RankPlan& rank, const LoadChange& change);

}  // namespace tidemark
