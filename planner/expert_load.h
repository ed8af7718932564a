#pragma once
// From a distribution of expert load to the uniform load a rank is planned at, so that the stated quantile is one of
// the rank's peak and not of each storage.
//
// Model: f of (layer, micro-batch) = mean * (1 + cv * (sqrt(r) * z + sqrt(1 - r) * e)), at least 0, with z one standard
// normal per device and step, e one per site, r the share of variance common to all layers
// (ExpertLoadSpec::layer_correlation). A peak sums dozens of sites in flight, so independent parts average out and the
// planned load lies near the mean unless loads are correlated.

#include <functional>
#include <vector>

#include "core/result.h"
#include "planner/planner.h"

namespace tidemark {

/// The uniform load at which a program's device peak equals the `quantile` of its peak under the distribution. Seeded
/// sampling; the program's schedule is held fixed. At least spec.mean is not guaranteed: a quantile below 0.5 may give
/// less.
[[nodiscard]] double equivalent_load(const Graph& graph, const Schedule& schedule, const ExpertLoadSpec& spec);

/// Plans, asks each rank for its equivalent load, and plans again until the planned load covers it (few rounds).
[[nodiscard]] Result<PlanOutcome> plan_for_quantile(
    const ExpertLoadSpec& spec, std::size_t ranks,
    const std::function<Result<PlanOutcome>(const std::vector<double>&)>& plan);

}  // namespace tidemark
