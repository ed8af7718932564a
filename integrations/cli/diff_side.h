#pragma once
// One side of a comparison: what a file holds, whatever it is.

#include <filesystem>
#include <optional>
#include <string>

#include "core/result.h"
#include "integrations/ci/baseline.h"
#include "integrations/cli/job_request.h"
#include "integrations/formats/program_file.h"
#include "planner/budget/holdings.h"

namespace tidemark::cli {

class Console;

struct ComparedSide {
  std::string label;
  budget::Holdings holdings;
  std::optional<formats::PlanFile> plan;    ///< where it is a plan file
  std::optional<ci::BaselineJob> baseline;  ///< where it is a baseline's job
};

/// A baseline's job is the one named `only`, or its only one. Errors: those of the readers and of `answer`; a program
/// that is not sound.
[[nodiscard]] Result<ComparedSide> read_side(const std::filesystem::path& path, const std::string& only,
                                             const JobOptions& options, const Console& console);

}  // namespace tidemark::cli
