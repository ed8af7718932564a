#pragma once
// Which kind of job a file or folder is: what `tidemark check FILE` makes of it. A look at its name and its beginning,
// no reading: what it really is, its reader says.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/ci/budget_job.h"

namespace tidemark::cli {

/// Errors (bad_input): there is no such file, or nothing tells its kind; the message names the kinds.
[[nodiscard]] Result<ci::JobKind> job_kind_of(const std::filesystem::path& path);

/// A YAML file that begins like a budget file (docs/formats.md).
[[nodiscard]] bool is_budget_file(const std::filesystem::path& path);
/// A JSON file that begins like a baseline.
[[nodiscard]] bool is_baseline_file(const std::filesystem::path& path);

/// `model`, `plan`, ...: the words of --kind.
[[nodiscard]] std::vector<std::string> job_kind_words();
/// REQUIRES: one of those words.
[[nodiscard]] ci::JobKind job_kind_from(std::string_view word);

}  // namespace tidemark::cli
