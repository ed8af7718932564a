#pragma once
// The expert loads that a site's storages hold and that its ops take the time of.

#include <functional>

#include "core/graph.h"
#include "core/machine.h"
#include "core/site_load.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

/// Two numbers: memory follows the device itself, time the device that the others wait for.
struct BuiltLoad {
  SiteLoad own;        ///< rows of this device: bytes of storages
  double fullest = 1;  ///< rows of the fullest device of its expert group, over the mean: times of ops
};

/// Of all sites of a step that holds memory for `load`. Its ops take the mean time under the job's distribution
/// (mean_fullest_load, at most the physical worst); without one `load` is all that is known, and they take that of it.
/// Where rows are padded to a capacity, all devices have that, whatever `load` is; else none is above it.
[[nodiscard]] BuiltLoad built_load(const JobSpec& job, const Machine& machine, double load);

/// Loads of the site alone; its storages keep their bytes.
void set_load(Site& site, const BuiltLoad& load);

/// For a graph that was built at one load: gives every site the loads that the function answers, and its storages the
/// bytes that go with them. Sites without routed rows are not asked. Times of ops follow (cost::op_durations).
void set_site_loads(Graph& graph, const std::function<BuiltLoad(const Site&)>& load_of);

}  // namespace tidemark::graph_build
