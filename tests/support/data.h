#pragma once
// Where tests find their files: the repository's own, and the shared reference data that may be absent.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/support/source_dir.h"

namespace tidemark::testing {

/// A file of the repository, e.g. "models/small-mla-moe.yaml".
[[nodiscard]] inline std::filesystem::path source_path(std::string_view relative) {
  return std::filesystem::path(source_dir()) / relative;
}

/// A file of the reference data: below $TIDEMARK_DATA, else ../shared/data beside the source tree. Nothing if it is not
/// there: the test then skips, visibly.
[[nodiscard]] inline std::optional<std::filesystem::path> data_path(std::string_view relative) {
  const char* given = std::getenv("TIDEMARK_DATA");
  const std::filesystem::path root =
      given != nullptr && *given != '\0' ? std::filesystem::path(given) : source_path("../shared/data");
  const std::filesystem::path path = root / relative;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  return path;
}

/// The text of a file that must be there. Throws std::runtime_error, which fails the test, if it cannot be read.
[[nodiscard]] inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace tidemark::testing
