#pragma once
// Steps captured or described by others, as graphs of one block and one site (planner/graph_build/captured_graph.h).
// Three texts, told apart by their content (docs/formats.md): `.graph` (one storage per node), `.swapgraph` (the same
// with seconds, joules and copy costs), and our own JSON, `{"tidemark_graph": 1, ...}`.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "core/bytes.h"
#include "core/graph.h"
#include "core/result.h"

namespace tidemark::formats {

/// What costs of the answer count. `cost`: what the file states (of a .swapgraph: energy).
enum class StepObjective : std::uint8_t { cost, time, energy };

struct CapturedStep {
  std::string name;
  std::string framework;  ///< what the one that captured it says for itself; not read here
  Graph graph;
  Bytes host_bytes = std::numeric_limits<Bytes>::max();  ///< that the file's link may swap out to, at any time
};

/// Errors (bad_input): `file:line: what`, in JSON `file: /json/pointer: what`; an objective the file has no costs for.
[[nodiscard]] Result<CapturedStep> read_captured_step(std::string_view text, std::string_view file_name,
                                                      StepObjective objective = StepObjective::cost);

}  // namespace tidemark::formats
