#pragma once
// Steps captured or described elsewhere, as lists of ops (core/op_list.h). Three texts, told apart by their content
// (docs/formats.md): `.graph` (one storage per node), `.swapgraph` (the same with seconds, joules and page costs), and
// our own JSON, `{"tidemark_graph": 1, ...}`.

#include <cstdint>
#include <string_view>

#include "core/op_list.h"
#include "core/result.h"

namespace tidemark {

/// What costs of the answer count. `cost`: what the file states (of a .swapgraph: energy).
enum class StepObjective : std::uint8_t { cost, time, energy };

/// Errors (bad_input): `file:line: what`, in JSON `file: /json/pointer: what`; an objective the file has no costs for.
[[nodiscard]] Result<OpList> read_op_list(std::string_view text, std::string_view file_name,
                                          StepObjective objective = StepObjective::cost);

}  // namespace tidemark
