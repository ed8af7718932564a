#pragma once
// Expert loads of their own for the sites of a graph that was built at one load.

#include <functional>

#include "core/graph.h"

namespace tidemark::graph_build {

/// Gives every site the load that the function answers, and its storages the bytes that go with it. Sites without
/// routed rows are not asked. Times of ops follow (cost::op_durations).
void set_site_loads(Graph& graph, const std::function<SiteLoad(const Site&)>& load_of);

}  // namespace tidemark::graph_build
