#include "integrations/formats/chip_files.h"

#include <fmt/format.h>

#include <utility>

#include "integrations/formats/file.h"
#include "integrations/formats/time_device_file.h"

namespace tidemark::formats {
namespace {

Result<TimeDeviceFile> read_at(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path path = folder / (name + ".yaml");
  const Result<std::string> text = read_file(path, kMostDescriptionBytes);
  if (!text) return text.error();
  return read_time_device(text.value(), path.string());
}

}  // namespace

ReadChip chips_in(std::filesystem::path folder) {
  return [folder = std::move(folder)](const std::string& name) -> Result<Chip> {
    Result<TimeDeviceFile> file = read_at(folder, name);
    if (!file) return file.error();
    if (!shares_constants(file.value())) return file.value().device;
    const Result<TimeDeviceFile> owner = read_at(folder, file.value().constants);
    if (!owner) return owner.error();
    if (const Status shared = share_constants(file.value(), owner.value()); !shared) return shared.error();
    return file.value().device;
  };
}

}  // namespace tidemark::formats
