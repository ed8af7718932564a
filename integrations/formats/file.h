#pragma once
// Whole files in and out: the rim. Nothing else in formats touches the file system.

#include <filesystem>
#include <string>
#include <string_view>

#include "core/result.h"

namespace tidemark {

/// The bytes of a regular file, a pipe or /dev/stdin. Errors (bad_input): it cannot be opened or read, or is a
/// directory.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path);

/// Replaces `path` by `bytes` at once: written to a temporary file in the same directory, synchronised, then renamed.
/// On any error (bad_input) an existing file keeps its old bytes and nothing half-written is left behind. What is not a
/// regular file (/dev/stdout, a pipe) is written in place, since it cannot be renamed over.
[[nodiscard]] Status write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace tidemark
