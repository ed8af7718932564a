#pragma once
// Where the devices that step times are predicted on are: devices/chips/ of the directories of locations.h.

#include <filesystem>
#include <string>
#include <vector>

#include "core/result.h"
#include "integrations/cli/locations.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/formats/time_device_file.h"

namespace tidemark::cli {

/// Ascending by name; of one name the first directory's.
[[nodiscard]] std::vector<Description> list_time_devices(const std::vector<std::filesystem::path>& shares);

/// The device that measured rows name, with its constants, be they its own or another's. `name` is one of the shipped
/// ones, else the path of a file, whose shared constants lie beside it or are shipped. Errors (bad_input): nothing of
/// that name, with a near miss; `file:line: what, and what would be right` where a file is wrong.
[[nodiscard]] Result<formats::TimeDeviceFile> read_named_time_device(const std::string& name,
                                                                     const std::vector<std::filesystem::path>& shares);

/// Chips of a device file: those in chips/ beside it, then shipped ones.
[[nodiscard]] formats::ReadChip chips_for(const std::filesystem::path& device_file);

}  // namespace tidemark::cli
