#pragma once
// Plan files for the verbs that read them.

#include <filesystem>
#include <optional>

#include "core/result.h"
#include "integrations/formats/program_file.h"
#include "planner/planner.h"

namespace tidemark::cli {

/// Errors (bad_input): one line that starts with the file's name.
[[nodiscard]] Result<formats::PlanFile> read_plan(const std::filesystem::path& path);

/// Why the plan cannot run: a file can have been edited, and a plan that does not fit is written, too.
[[nodiscard]] std::optional<Error> not_runnable(const plan::PlanRequest& request, const plan::PlanOutcome& plan);

}  // namespace tidemark::cli
