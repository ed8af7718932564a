#pragma once
// From a distribution of expert load to the uniform load a rank is planned at, so that the stated quantile is one of
// the rank's peak and not of each storage.
//
// Model: graph_build/load_model.h, at least 0; a device of any step, so that drift does not matter. A peak sums dozens
// of sites in flight, so parts of single sites average out, popularity averages out over the layers of a rank, and the
// planned load lies near the mean unless loads are correlated.

#include <cstdint>
#include <vector>

#include "core/graph.h"
#include "core/liveness.h"
#include "core/schedule.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

/// The uniform load at which a rank's device peak equals the `quantile` of the highest peak among the `devices` of its
/// expert group, which run in chunks together where one of them has no room; rows sent count as planned. Mean and
/// deviation of a device's peak are sampled (seeded), with what is in memory when held fixed; devices are taken as
/// independent, and a peak, which sums dozens of sites, as normal. spec.mean where nothing routed sets the peak.
/// REQUIRES: devices >= 1.
[[nodiscard]] double equivalent_load(const Graph& graph, const Schedule& schedule, const ExpertLoadSpec& spec,
                                     std::int64_t devices);
/// The same with everything kept.
[[nodiscard]] double equivalent_load(const Graph& graph, const Liveness& liveness, const ExpertLoadSpec& spec,
                                     std::int64_t devices);

}  // namespace tidemark::graph_build
