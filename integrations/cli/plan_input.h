#pragma once
// Plan files for the verbs that read them.

#include <filesystem>

#include "core/result.h"
#include "integrations/formats/program_file.h"

namespace tidemark::cli {

/// Errors (bad_input): one line that starts with the file's name.
[[nodiscard]] Result<formats::PlanFile> read_plan(const std::filesystem::path& path);

}  // namespace tidemark::cli
