#pragma once
// Where the shipped descriptions are: beside the model, in the installed share directory, in the source tree.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tidemark::cli {

/// Directories that hold devices/ and models/, in the order they are searched: share/tidemark beside the executable's
/// bin/, the install prefix compiled in, the source tree compiled in. Only those that exist, each once.
[[nodiscard]] std::vector<std::filesystem::path> share_directories();

/// A description shipped as `<share>/<kind>/<name>.yaml`.
struct Description {
  std::string name;
  std::filesystem::path path;
};
/// Ascending by name; of one name the first directory's. `kind`: "devices" or "models".
[[nodiscard]] std::vector<Description> list_descriptions(std::string_view kind,
                                                         const std::vector<std::filesystem::path>& shares);

/// The file of a device: `<name>.yaml` in devices/ beside the model file's directory, then shipped ones, then `name` as
/// a path, which is relative to `folder` (empty: the working directory). Errors (bad_input, without a place): nothing
/// of that name, with a near miss, and the path where it looks like one.
[[nodiscard]] Result<std::filesystem::path> find_device(const std::string& name,
                                                        const std::filesystem::path& model_file,
                                                        const std::filesystem::path& folder = {});

}  // namespace tidemark::cli
