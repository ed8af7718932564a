#pragma once
// Where a budget file and its baseline are, and what is in them.

#include <filesystem>
#include <optional>

#include "core/result.h"
#include "integrations/ci/baseline.h"
#include "integrations/ci/budget_file.h"
#include "integrations/ci/report_paths.h"

namespace tidemark::cli {

/// tidemark-budget.yaml in `folder` or the nearest folder above it; the search ends at the root of a repository (a
/// folder with .git). A link that leads nowhere, and a file of which nothing tells whether it is there, are found: they
/// cannot be read, which is an error, and no file above takes their place. Nothing: there is none.
[[nodiscard]] std::optional<std::filesystem::path> find_budget_file(std::filesystem::path folder);

/// Where paths of reports begin: in the nearest folder from the working one up that has .git, else in the working one.
[[nodiscard]] ci::ReportPaths report_paths();

/// Errors (bad_input): it cannot be read; those of ci::read_budget_file.
[[nodiscard]] Result<ci::BudgetFile> read_budget(const std::filesystem::path& path);

/// A file that a budget file names: relative to that file's folder, and without `..` where that leads to the same.
[[nodiscard]] std::filesystem::path beside(const std::filesystem::path& budget_file, const std::string& name);

/// Nothing: there is no such file. Errors (bad_input): it cannot be read, nor told whether it is there (a folder that
/// may not be entered, a link that leads nowhere); those of ci::read_baseline.
[[nodiscard]] Result<std::optional<ci::Baseline>> read_baseline(const std::filesystem::path& path);

}  // namespace tidemark::cli
