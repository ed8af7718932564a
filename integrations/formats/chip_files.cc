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

Status check_name(const fs::path& path, const TimeDeviceFile& file, const std::string& name) {
  if (file.name == name) return {};
  return bad_input(fmt::format("{}: the name is {}, but the file is taken for {}; name it as the file", path.string(),
                               shown(file.name), name));
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
  const Result<TimeDeviceFile> owner = read_at(owner_path.value());
  if (!owner) return owner.error();
  if (Status s = check_name(owner_path.value(), owner.value(), name); !s) return s.error();
  if (const Status shared = share_constants(file.value(), owner.value()); !shared)
    return bad_input(fmt::format("{}: {}", path.string(), shared.error().message));
  return file;
}

Result<Chip> read_named_chip(const std::string& name, const FindChip& find) {
  const Result<fs::path> path = find(name);
  if (!path) return path.error();
  const Result<TimeDeviceFile> file = read_chip_file(path.value(), find);
  if (!file) return file.error();
  if (Status s = check_name(path.value(), file.value(), name); !s) return s.error();
  return file.value().device;
}

ReadChip chips_in(fs::path folder) {
  return [folder = std::move(folder)](const std::string& name) {
    return read_named_chip(name, [&folder](const std::string& of) -> Result<fs::path> { return file_of(folder, of); });
  };
}

}  // namespace tidemark::formats
