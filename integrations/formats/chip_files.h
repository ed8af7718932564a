#pragma once
// Chips in a folder: files of time_device_file.h, and those whose constants they share.

#include <filesystem>

#include "integrations/formats/import_yaml.h"

namespace tidemark::formats {

/// Reads `folder`/NAME.yaml. Errors (bad_input): the file cannot be read, or is wrong.
[[nodiscard]] ReadChip chips_in(std::filesystem::path folder);

}  // namespace tidemark::formats
