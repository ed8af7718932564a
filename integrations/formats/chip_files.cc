#include "integrations/formats/chip_files.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "integrations/formats/file.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

namespace fs = std::filesystem;

fs::path file_of(const fs::path& folder, const std::string& name) {
  return folder / (name + ".yaml");
}

Result<TimeDeviceFile> read_at(const fs::path& path) {
  const Result<std::string> text = read_file(path, kMostDescriptionBytes);
  if (!text) return text.error();
  return read_time_device(text.value(), path.string());
}

/// The file of `name`, which another takes its constants from.
Result<TimeDeviceFile> read_owner(const fs::path& path, const std::string& name) {
  Result<TimeDeviceFile> owner = read_at(path);
  if (owner && owner.value().name != name)
    return bad_input(fmt::format("{}: the name is {}, but the file is taken for {}; name it as the file", path.string(),
                                 shown(owner.value().name), name));
  return owner;
}

}  // namespace

Result<TimeDeviceFile> read_chip_file(const fs::path& path, const FindChip& find) {
  Result<TimeDeviceFile> file = read_at(path);
  if (!file || !shares_constants(file.value())) return file;
  const std::string& name = file.value().constants;
  const fs::path beside = file_of(path.parent_path(), name);
  // Whatever is there counts, also what cannot be read: another's constants in its place would be a surprise.
  std::error_code error;
  const Result<fs::path> owner_path = fs::exists(fs::symlink_status(beside, error)) ? beside : find(name);
  if (!owner_path) return bad_input(fmt::format("{}: {}", path.string(), owner_path.error().message));
  const Result<TimeDeviceFile> owner = read_owner(owner_path.value(), name);
  if (!owner) return owner.error();
  if (const Status shared = share_constants(file.value(), owner.value()); !shared)
    return bad_input(fmt::format("{}: {}", path.string(), shared.error().message));
  return file;
}

ReadChip chips_in(fs::path folder) {
  return [folder = std::move(folder)](const std::string& name) -> Result<Chip> {
    const FindChip in_folder = [&folder](const std::string& of) -> Result<fs::path> { return file_of(folder, of); };
    const Result<TimeDeviceFile> file = read_chip_file(file_of(folder, name), in_folder);
    if (!file) return file.error();
    return file.value().device;
  };
}

}  // namespace tidemark::formats
