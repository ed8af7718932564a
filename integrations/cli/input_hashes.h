#pragma once
// What the files of a job hold, as a baseline remembers it.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "integrations/ci/baseline.h"

namespace tidemark::cli {

using RoleFiles = std::vector<std::pair<std::string, std::filesystem::path>>;

/// One a file, ascending by role, then by hash; empty paths are left out.
/// Errors (bad_input): a file cannot be read.
[[nodiscard]] Result<std::vector<ci::InputHash>> hash_inputs(const RoleFiles& files);

}  // namespace tidemark::cli
