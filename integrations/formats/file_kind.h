#pragma once
// Which of our own files a text is, for the error that names a file given in the place of another kind. A look at how
// it begins, no reading: what a text really is, its reader says.

#include <cstdint>
#include <filesystem>

#include "core/result.h"

namespace tidemark::formats {

enum class FileKind : std::uint8_t { plan, captured_step, job, other };

/// `error`, or where the file is told to be of another kind than `wanted`, one that says so and what would be right.
[[nodiscard]] Error explain_kind(Error error, const std::filesystem::path& path, FileKind wanted);

}  // namespace tidemark::formats
