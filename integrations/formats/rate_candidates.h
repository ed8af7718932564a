#pragma once
// Constants to be tried on measured rows: what scripts/fit_device writes and `estimate --time-truth ROWS --rates FILE`
// reads, many at once, so that the rows are read once for all of them.
//
//   {"constants": "a100-80g", "candidates": [{"matmul": 0.81, "tile_start": 146, ..., "launch": "18.9us", ...}, ...]}

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/chip.h"
#include "core/result.h"
#include "planner/step_time/time_row.h"

namespace tidemark::formats {

inline constexpr std::size_t kMostCandidates = 256;

struct RateCandidates {
  std::string constants;           ///< name of the device whose constants they stand in place of
  std::vector<FittedRates> rates;  ///< at least one
};

/// YAML, or JSON as above; a candidate has every constant, in the units of devices/chips/*.yaml. Errors (bad_input):
/// `file_name:line: what, and what would be right`.
[[nodiscard]] Result<RateCandidates> read_rate_candidates(std::string_view text, std::string_view file_name);

/// What the script reads back, one line of JSON: {"rows": [{id, split_key, software, constants, measured_s, scored}],
/// "candidates": [[seconds of each row]]}. Seconds are modelled, without factors of sources, in full precision; null
/// where nothing is predicted. `constants`: by row, the device whose constants predict it, empty where none does.
/// `seconds`: by candidate and row. REQUIRES: as many names and seconds as rows.
[[nodiscard]] std::string candidates_json(std::span<const step_time::TimeRow> rows,
                                          std::span<const std::string> constants,
                                          std::span<const std::vector<std::optional<double>>> seconds);

}  // namespace tidemark::formats
