#pragma once
// How storages of all layers and ranks are named together.

#include <cstdint>
#include <set>
#include <string>

#include "core/graph.h"

namespace tidemark::plan {

struct StorageName {
  std::string name;         ///< module path and name without parts that are numbers: `layers.attention.q`
  std::string module;       ///< the path alone
  std::int32_t layer = -1;  ///< the first number left out of the path; -1: it has none
};

/// Parts of a path are separated by dots; `part1` is a word.
[[nodiscard]] StorageName storage_name(const StorageTemplate& storage);

/// `0-2,5`; empty: no numbers.
[[nodiscard]] std::string ranges_text(const std::set<std::int32_t>& numbers);

}  // namespace tidemark::plan
