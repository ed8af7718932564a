#pragma once
// Devices that step times are predicted on (devices/chips/*.yaml): data sheets, the constants fitted to measured step
// times, and one factor for each software that was timed. Text in, value out; docs/formats.md has the schema.

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/chip.h"
#include "core/result.h"

namespace tidemark::formats {

/// More would fit any rows: what a device adds to the model has to stay small beside what it is measured with.
inline constexpr std::size_t kMostFittedConstants = 8;

struct TimeDeviceFile {
  std::string name;
  Chip device;
  std::string constants;            ///< name of the device whose constants and factors it has: its own, or another's
  std::vector<std::string> fitted;  ///< constants that were fitted, in the order of kTimeConstants; the rest are priors
  std::string base_source;          ///< software whose factor is 1; empty: none was timed
  std::map<std::string, double> factors;  ///< by software: measured seconds over predicted ones, the base's 1
};

/// A file as it stands. Where it shares the constants of another, `constants` names that one, the rates are priors and
/// there are no factors until share_constants. Errors (bad_input): `file_name:line: what, and what would be right`; of
/// several mistakes the first in the file.
[[nodiscard]] Result<TimeDeviceFile> read_time_device(std::string_view text, std::string_view file_name);

/// Of devices and software in these files: lower-case letters, digits, dashes, underscores and dots, 1 to 64. A message
/// may repeat it as it is.
[[nodiscard]] bool is_plain_name(std::string_view name);

[[nodiscard]] inline bool shares_constants(const TimeDeviceFile& file) {
  return file.constants != file.name;
}

/// Gives a device the constants and factors of the one that it names. Errors (bad_input, without a place): `owner`
/// shares those of another itself. REQUIRES: owner is the device that `file.constants` names.
[[nodiscard]] Status share_constants(TimeDeviceFile& file, const TimeDeviceFile& owner);

}  // namespace tidemark::formats
