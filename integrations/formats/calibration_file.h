#pragma once
// The overlay that `tidemark calibrate` writes and plan, estimate and check read with --calibration:
//
//   {"format": "tidemark.calibration", "version": 1, "sources": ["..."],
//    "memory": {"model": "...", "static_offset_bytes": 0, "static_factor": 1, "activation_factor": 1} or null,
//    "op_time_scale": 1.07 or null, "d2h_bytes_per_s": 2.3e10 or null, "h2d_bytes_per_s": 2.3e10 or null}

#include <string>
#include <string_view>

#include "core/result.h"
#include "planner/estimate/calibration.h"

namespace tidemark::formats {

/// Ends with a newline. Reads back as the same value.
[[nodiscard]] std::string write_calibration(const estimate::Calibration& calibration);

/// Errors (bad_input): `file:line:column: what` where it is no JSON, else `file: /json/pointer: what, and what would be
/// right`.
[[nodiscard]] Result<estimate::Calibration> read_calibration(std::string_view text, std::string_view file_name);

}  // namespace tidemark::formats
