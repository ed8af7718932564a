#include "integrations/cli/budget_location.h"

#include <fmt/format.h>

#include <string>
#include <system_error>
#include <utility>

#include "integrations/ci/baseline_text.h"
#include "integrations/formats/file.h"

namespace tidemark::cli {

namespace fs = std::filesystem;

namespace {

/// A link that leads nowhere is there, and so is what nothing is told of: neither makes room for another file.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

}  // namespace

std::optional<fs::path> find_budget_file(fs::path folder) {
  std::error_code error;
  fs::path shown;  // relative, as a person would name it
  fs::path start = fs::absolute(folder, error).lexically_normal();
  if (!start.has_filename()) start = start.parent_path();  // of `.`
  for (fs::path at = start;; at = at.parent_path()) {
    const fs::path file = at / ci::kBudgetFileName;
    if (is_there(file)) return shown / ci::kBudgetFileName;
    if (is_there(at / ".git") || at == at.parent_path()) return std::nullopt;
    shown /= "..";
  }
}

ci::ReportPaths report_paths() {
  std::error_code error;
  const fs::path working = fs::current_path(error);
  if (error) return {};
  for (fs::path at = working;; at = at.parent_path()) {
    if (fs::exists(at / ".git", error)) return {.working = working.string(), .root = at.string()};
    if (at == at.parent_path()) return {.working = working.string(), .root = working.string()};
  }
}

Result<ci::BudgetFile> read_budget(const fs::path& path) {
  const Result<std::string> text = formats::read_file(path, formats::kMostDescriptionBytes);
  if (!text) return text.error();
  return ci::read_budget_file(text.value(), path.string());
}

fs::path beside(const fs::path& budget_file, const std::string& name) {
  const fs::path whole = budget_file.parent_path() / name;
  fs::path shorter = whole.lexically_normal();
  std::error_code error;
  // Behind a folder that is a link `..` is not the folder it stands in.
  const bool leads_elsewhere = fs::exists(whole, error) && !fs::equivalent(whole, shorter, error);
  return leads_elsewhere ? whole : shorter;
}

Result<std::optional<ci::Baseline>> read_baseline(const fs::path& path) {
  std::error_code error;
  // Of a link itself: one that leads nowhere is a baseline that cannot be read.
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type == fs::file_type::not_found) return std::optional<ci::Baseline>();
  if (type == fs::file_type::none)
    return bad_input(fmt::format("{}: nothing says whether it is there: {}", path.string(), error.message()));
  const Result<std::string> text = formats::read_file(path, static_cast<Bytes>(ci::kMostBaselineBytes));
  if (!text) return text.error();
  Result<ci::Baseline> baseline = ci::read_baseline(text.value(), path.string());
  if (!baseline) return baseline.error();
  return std::optional<ci::Baseline>(std::move(baseline).value());
}

}  // namespace tidemark::cli
