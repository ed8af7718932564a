#include "integrations/cli/locations.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "integrations/cli/options.h"
#include "integrations/formats/shown.h"

namespace tidemark::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".yaml";

/// The directory that holds the model's own directory: models/x.yaml lies beside devices/.
fs::path beside(const fs::path& model_file) {
  const fs::path directory = model_file.parent_path();
  return directory.empty() ? fs::path("..") : directory / "..";
}

/// `a folder; give a file, such as folder/h100.yaml`: the first one in it, if it has any.
std::string folder_words(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == kExtension) files.push_back(at->path());
  if (files.empty()) return "a folder; give a device file";
  return "a folder; give one device file, such as " + std::ranges::min_element(files)->string();
}

}  // namespace

std::vector<fs::path> share_directories() {
  std::error_code error;
  std::vector<fs::path> candidates;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) candidates.push_back(program.parent_path().parent_path() / "share" / "tidemark");
  candidates.emplace_back(TIDEMARK_SHARE_DIR);
  candidates.emplace_back(TIDEMARK_SOURCE_DIR);
  std::vector<fs::path> found;
  for (const fs::path& candidate : candidates) {
    const bool holds = fs::is_directory(candidate / "devices", error) || fs::is_directory(candidate / "models", error);
    if (holds && std::ranges::find(found, candidate) == found.end()) found.push_back(candidate);
  }
  return found;
}

std::vector<Description> list_descriptions(std::string_view kind, const std::vector<fs::path>& shares) {
  std::map<std::string, fs::path> found;
  std::error_code error;
  for (const fs::path& share : shares)
    for (const auto& entry : fs::directory_iterator(share / kind, error))
      if (entry.path().extension() == kExtension) found.emplace(entry.path().stem().string(), entry.path());
  std::vector<Description> list;
  for (auto& [name, path] : found) list.push_back({.name = name, .path = path});
  return list;
}

Result<fs::path> find_device(const std::string& name, const fs::path& model_file, const fs::path& folder) {
  std::vector<fs::path> places = {beside(model_file)};
  std::ranges::copy(share_directories(), std::back_inserter(places));
  std::error_code error;
  for (const fs::path& place : places) {
    fs::path path = place / "devices" / (name + std::string(kExtension));
    if (fs::is_regular_file(path, error)) return path.lexically_normal();
  }
  const fs::path file = folder / name;
  const bool is_folder = fs::is_directory(file, error);
  if (!is_folder && fs::exists(file, error)) return file;
  std::vector<std::string> known;
  for (const Description& device : list_descriptions("devices", places)) known.push_back(device.name);
  if (is_folder)
    return bad_input(
        fmt::format("{} is {}, or one of {}", formats::shown(file.string()), folder_words(file), join_words(known)));
  const bool is_path = file != name || file.has_parent_path() || file.has_extension();
  return bad_input(fmt::format("no device {}{}{}; known: {}, or a file", formats::shown(name),
                               is_path ? " and no file " + file.string() : "", hint_for(name, known),
                               join_words(known)));
}

}  // namespace tidemark::cli
