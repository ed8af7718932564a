#include "planner/storage_names.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/number_ranges.h"

namespace tidemark::plan {
namespace {

/// A path without its numbered parts, and the first of these numbers; -1: it has none.
struct NumberlessPath {
  std::string path;
  std::int32_t number = -1;
};

NumberlessPath without_numbers(std::string_view path) {
  constexpr std::size_t kMostDigits = 9;
  NumberlessPath result;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    const bool is_number = !part.empty() && part.size() <= kMostDigits &&
                           std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number) {
      result.path += (result.path.empty() ? "" : ".") + std::string(part);
    } else if (result.number < 0) {
      result.number = std::stoi(std::string(part));
    }
  }
  return result;
}

}  // namespace

StorageName storage_name(const StorageTemplate& storage) {
  NumberlessPath module = without_numbers(storage.module_path);
  const NumberlessPath name = without_numbers(storage.name);
  std::string full = module.path + (module.path.empty() || name.path.empty() ? "" : ".") + name.path;
  return {.name = std::move(full), .module = std::move(module.path), .layer = module.number};
}

std::string ranges_text(const std::set<std::int32_t>& numbers) {
  return number_ranges(numbers, ",");
}

}  // namespace tidemark::plan
