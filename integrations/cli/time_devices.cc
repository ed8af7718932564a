#include "integrations/cli/time_devices.h"

#include <fmt/format.h>

#include <algorithm>

#include "integrations/cli/options.h"
#include "integrations/formats/file.h"
#include "integrations/formats/shown.h"

namespace tidemark::cli {
namespace {

namespace fs = std::filesystem;

Result<fs::path> find_file(const std::string& name, const std::vector<fs::path>& shares) {
  const std::vector<Description> shipped = list_time_devices(shares);
  const auto found = std::ranges::find(shipped, name, &Description::name);
  if (found != shipped.end()) return found->path;
  std::error_code error;
  if (fs::exists(name, error)) return fs::path(name);
  std::vector<std::string> known;
  for (const Description& device : shipped) known.push_back(device.name);
  return bad_input(fmt::format("no device {} that step times are predicted on{}; known: {}, or a file",
                               formats::shown(name), hint_for(name, known), join_words(known)));
}

Result<formats::TimeDeviceFile> read_at(const fs::path& path) {
  const Result<std::string> text = formats::read_file(path, formats::kMostDescriptionBytes);
  if (!text) return text.error();
  return formats::read_time_device(text.value(), path.string());
}

}  // namespace

std::vector<Description> list_time_devices(const std::vector<fs::path>& shares) {
  return list_descriptions("devices/chips", shares);
}

Result<formats::TimeDeviceFile> read_named_time_device(const std::string& name, const std::vector<fs::path>& shares) {
  const Result<fs::path> path = find_file(name, shares);
  if (!path) return path.error();
  Result<formats::TimeDeviceFile> file = read_at(path.value());
  if (!file || !formats::shares_constants(file.value())) return file;
  const fs::path beside = path.value().parent_path() / (file.value().constants + ".yaml");
  std::error_code error;
  const Result<fs::path> owner_path =
      fs::is_regular_file(beside, error) ? beside : find_file(file.value().constants, shares);
  if (!owner_path) return bad_input(fmt::format("{}: {}", path.value().string(), owner_path.error().message));
  const Result<formats::TimeDeviceFile> owner = read_at(owner_path.value());
  if (!owner) return owner.error();
  if (owner.value().name != file.value().constants)
    return bad_input(fmt::format("{}: the name is {}, but the file is taken for {}; name it as the file",
                                 owner_path.value().string(), formats::shown(owner.value().name),
                                 file.value().constants));
  if (const Status shared = formats::share_constants(file.value(), owner.value()); !shared)
    return bad_input(fmt::format("{}: {}", path.value().string(), shared.error().message));
  return file;
}

formats::ReadChip chips_for(const fs::path& device_file) {
  return [beside = device_file.parent_path() / "chips"](const std::string& name) -> Result<Chip> {
    std::error_code error;
    const fs::path own = beside / (name + ".yaml");
    const Result<formats::TimeDeviceFile> file =
        read_named_time_device(fs::is_regular_file(own, error) ? own.string() : name, share_directories());
    if (!file) return file.error();
    return file.value().device;
  };
}

}  // namespace tidemark::cli
