#pragma once
// Where reference data lies: the folder named by TIDEMARK_DATA, else ../shared/data beside the source tree.

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

namespace tidemark {

/// The path of a reference file, or nothing where the data is not installed (the test then skips, visibly).
inline std::optional<std::filesystem::path> data_path(std::string_view relative) {
  const char* root = std::getenv("TIDEMARK_DATA");
  const std::filesystem::path folder =
      root != nullptr ? std::filesystem::path(root) : std::filesystem::path(TIDEMARK_SOURCE_DIR) / "../shared/data";
  std::filesystem::path path = folder / relative;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

}  // namespace tidemark
