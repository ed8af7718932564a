#pragma once
// Files of chips (time_device_file.h), and those whose constants they share.

#include <filesystem>
#include <functional>
#include <string>

#include "integrations/formats/import_yaml.h"
#include "integrations/formats/time_device_file.h"

namespace tidemark::formats {

/// Where the file of a chip is, by its name. Errors (bad_input): there is none.
using FindChip = std::function<Result<std::filesystem::path>(const std::string& name)>;

/// The chip in `path`, with the constants of the one that it names for them: a file beside it, else what `find` gives.
/// Errors (bad_input): a file cannot be read, is wrong, or holds another name than it is taken for.
[[nodiscard]] Result<TimeDeviceFile> read_chip_file(const std::filesystem::path& path, const FindChip& find);

/// The chip that `find` gives for `name`. Errors (bad_input): as above.
[[nodiscard]] Result<Chip> read_named_chip(const std::string& name, const FindChip& find);

/// Reads `folder`/NAME.yaml, which shares constants with files of the same folder only. Errors (bad_input): as above.
[[nodiscard]] ReadChip chips_in(std::filesystem::path folder);

}  // namespace tidemark::formats
