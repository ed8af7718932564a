#include "integrations/cli/time_devices.h"

#include <fmt/format.h>

#include <algorithm>

#include "integrations/cli/options.h"
#include "integrations/formats/chip_files.h"
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

}  // namespace

std::vector<Description> list_time_devices(const std::vector<fs::path>& shares) {
  return list_descriptions("devices/chips", shares);
}

Result<formats::TimeDeviceFile> read_named_time_device(const std::string& name, const std::vector<fs::path>& shares) {
  const Result<fs::path> path = find_file(name, shares);
  if (!path) return path.error();
  return formats::read_chip_file(path.value(), [&shares](const std::string& of) { return find_file(of, shares); });
}

formats::ReadChip chips_for(const fs::path& device_file) {
  return [beside = device_file.parent_path() / "chips"](const std::string& name) {
    return formats::read_named_chip(name, [&beside](const std::string& of) -> Result<fs::path> {
      std::error_code error;
      const fs::path own = beside / (of + ".yaml");
      return fs::exists(fs::symlink_status(own, error)) ? Result<fs::path>(own) : find_file(of, share_directories());
    });
  };
}

}  // namespace tidemark::cli
