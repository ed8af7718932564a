#pragma once
// Memory figures a user logged himself, one rank a line, as CSV
//
//   rank,allocated_mib,max_allocated_mib
//   0,16809.0,20536.3
//
// or as JSON with the members of docs/formats.md: {"ranks": [{"rank": 0, "allocated_mib": ..., "max_allocated_mib":
// ...}]}. MiB, as the frameworks print them; `max_allocated_mib` may be left out or blank.

#include <string_view>
#include <vector>

#include "core/result.h"
#include "planner/estimate/measured_run.h"

namespace tidemark::formats {

/// At least one, each with a rank and a steady figure. JSON where the text starts with a brace. Errors (bad_input):
/// `file:line: what` or `file: /json/pointer: what`.
[[nodiscard]] Result<std::vector<estimate::MeasuredRank>> read_measured_memory(std::string_view text,
                                                                               std::string_view file_name);

}  // namespace tidemark::formats
