#pragma once
// The graph of a captured step in a plan file (docs/formats.md): what GraphOutline does not say of it. A job's graphs
// are built again from the job and need no columns. Private to formats.

#include "core/graph.h"
#include "integrations/formats/json_node.h"
#include "integrations/formats/json_text.h"
#include "integrations/formats/program_file.h"

namespace tidemark::formats {

/// REQUIRES: a graph that CapturedGraphBuilder made: one block, one site, every op a template of its own.
void write_graph(JsonText& json, const Graph& graph);

/// Every id in the result is in range. `outline`: of the rank, whose names and counts it takes.
[[nodiscard]] Graph read_graph(const JsonNode& node, const GraphOutline& outline);

}  // namespace tidemark::formats
