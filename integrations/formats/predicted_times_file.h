#pragma once
// Seconds predicted for measured rows by something else than this program's constants, to be scored as its own are:
// `estimate --time-truth ROWS --predicted FILE`. scripts/score_time writes those of constants fitted without a row's
// fold; another model's may be given alike.
//
//   {"rows": [{"id": "vtrain-single/...", "predicted_s": 1.25}, ...]}

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "core/result.h"

namespace tidemark::formats {

/// Seconds by id of a row.
using PredictedTimesById = std::map<std::string, double, std::less<>>;

/// YAML, or JSON as above. Errors (bad_input): `file_name:line: what, and what would be right`; among them seconds that
/// are not above 0, and an id that stands there twice.
[[nodiscard]] Result<PredictedTimesById> read_predicted_times(std::string_view text, std::string_view file_name);

}  // namespace tidemark::formats
