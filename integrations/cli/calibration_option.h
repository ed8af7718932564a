#pragma once
// --calibration FILE: measured corrections for whatever is planned.

#include <optional>

#include "core/result.h"
#include "integrations/cli/job_request.h"
#include "planner/estimate/calibration.h"

namespace CLI {
class App;
}

namespace tidemark::cli {

class Console;

void add_calibration(CLI::App& app, JobOptions& options);

/// None: not given. Errors (bad_input): the file cannot be read or holds a mistake.
[[nodiscard]] Result<std::optional<estimate::Calibration>> read_calibration_option(const JobOptions& options);

/// Compute times and links of `request` as measured; memory that was found beside what is modelled becomes a reserve.
/// An
/// --op-time-scale or --layer-ms given is left alone. What was corrected is noted on `console`, if there is one.
[[nodiscard]] Status apply_calibration(const JobOptions& options, plan::PlanRequest& request, const Console* console);

}  // namespace tidemark::cli
