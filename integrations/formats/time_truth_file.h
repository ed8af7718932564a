#pragma once
// Measured step times of real training runs with their arguments, as JSON: {"rows": [...]}. docs/formats.md, "Measured
// step times", lists the members.
//
// Members that are not named there are not read. A row that lacks what a prediction needs is kept and says so
// (TimeRow::refused); one whose members have another type or are out of range is a mistake of the file, as is an id
// that two rows have. Whether there is a file of a row's device is for the caller to judge.

#include <string_view>
#include <vector>

#include "core/result.h"
#include "planner/step_time/time_row.h"

namespace tidemark::formats {

/// In the order of the file. Errors (bad_input): `file:line:column: what` where it is no JSON, else
/// `file: /json/pointer: what, and what would be right`.
[[nodiscard]] Result<std::vector<step_time::TimeRow>> read_time_truth(std::string_view text,
                                                                      std::string_view file_name);

}  // namespace tidemark::formats
