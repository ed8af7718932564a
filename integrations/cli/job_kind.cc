#include "integrations/cli/job_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>

#include "core/bytes.h"
#include "integrations/ci/baseline_text.h"
#include "integrations/ci/budget_file.h"
#include "integrations/cli/options.h"
#include "integrations/configs/config_kind.h"
#include "integrations/formats/file.h"

namespace tidemark::cli {
namespace {

namespace fs = std::filesystem;
using ci::JobKind;

constexpr Bytes kHeadBytes = 64 * kKiB;

/// A map of arguments has one of these, which no description of ours does.
bool names_arguments(std::string_view text) {
  constexpr std::array<std::string_view, 6> names = {"num-layers",  "num_layers", "hidden-size",
                                                     "hidden_size", "seq-length", "seq_length"};
  return std::ranges::any_of(names, [&](std::string_view name) { return text.find(name) != std::string_view::npos; });
}

std::optional<JobKind> kind_by_name(const fs::path& path) {
  const std::string extension = path.extension().string();
  constexpr std::array<std::string_view, 5> measured = {".pickle", ".pkl", ".csv", ".jsonl", ".ndjson"};
  if (std::ranges::find(measured, extension) != measured.end()) return JobKind::measured;
  if (extension == ".toml") return JobKind::torchtitan;
  if (extension == ".sh" || extension == ".bash") return JobKind::script;
  return std::nullopt;
}

std::optional<JobKind> kind_by_text(std::string_view text, const fs::path& path) {
  switch (configs::kind_of(text, path.string())) {
    case configs::ConfigKind::bridge:
      return JobKind::bridge;
    case configs::ConfigKind::torchtitan:
      return JobKind::torchtitan;
    case configs::ConfigKind::mindformers:
      return JobKind::mindformers;
    case configs::ConfigKind::other:
      break;
  }
  const std::string extension = path.extension().string();
  if (text.find("\"tidemark.plan\"") != std::string_view::npos) return JobKind::plan;
  if (extension == ".yaml" || extension == ".yml") return names_arguments(text) ? JobKind::script : JobKind::model;
  if (extension == ".json") return names_arguments(text) ? JobKind::script : JobKind::plan;
  if (text.starts_with("#!")) return JobKind::script;
  return std::nullopt;
}

bool begins_with_schema(const fs::path& path, std::string_view schema) {
  const std::string name(schema.substr(0, schema.find('/') + 1));
  return formats::read_head(path, kHeadBytes).find(name) != std::string::npos;
}

}  // namespace

Result<JobKind> job_kind_of(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return JobKind::measured;
  if (const std::optional<JobKind> kind = kind_by_name(path)) return *kind;
  if (const Result<std::ifstream> file = formats::open_file(path); !file) return file.error();
  if (const std::optional<JobKind> kind = kind_by_text(formats::read_head(path, kHeadBytes), path)) return *kind;
  return bad_input(fmt::format("{}: nothing tells what kind of job this is; say with --kind {}", path.string(),
                               join_words(job_kind_words())));
}

bool is_budget_file(const fs::path& path) {
  const std::string extension = path.extension().string();
  return (extension == ".yaml" || extension == ".yml") && begins_with_schema(path, ci::kBudgetSchema);
}

bool is_baseline_file(const fs::path& path) {
  return path.extension() == ".json" && begins_with_schema(path, ci::kBaselineSchema);
}

std::vector<std::string> job_kind_words() {
  return {ci::kJobKindWords.begin(), ci::kJobKindWords.end()};
}

JobKind job_kind_from(std::string_view word) {
  const auto found = std::ranges::find(ci::kJobKindWords, word);
  return static_cast<JobKind>(found - ci::kJobKindWords.begin());
}

}  // namespace tidemark::cli
