#pragma once
// The text formats `.graph` and `.swapgraph`: a line each for the counts, the nodes and the edges. Private to formats.
//
//   G n m
//   N idx cost bytes backward name                                               (.graph)
//   N idx runtime_s bytes backward name compute_J pagein_J pageout_J             (.swapgraph)
//   E src dst                                                                    src < dst

#include <string_view>

#include "core/result.h"
#include "integrations/formats/import_captured_step.h"

namespace tidemark::formats {

/// Every node is an op with one storage; storages of a .swapgraph may be swapped where the objective is energy.
/// Errors (bad_input): `file:line: what`, of a text that is not UTF-8 as well.
[[nodiscard]] Result<CapturedStep> read_captured_step_text(std::string_view text, std::string_view file_name,
                                                           StepObjective objective);

}  // namespace tidemark::formats
