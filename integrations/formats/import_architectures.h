#pragma once
// A space of architectures from YAML (docs/formats.md): what varies, between which bounds, on which layouts.

#include <string_view>

#include "core/result.h"
#include "planner/search/architecture_space.h"

namespace tidemark::formats {

struct ArchitectureQuery {
  search::ArchitectureRanges ranges;
  search::ArchitectureBounds bounds;
  search::LayoutRanges layouts;
};

/// Lists come out ascending and distinct; at most search::kMostArchitectures combinations. Errors (bad_input): one
/// line, `file_name:line: what, and what would be right`; of several mistakes the first in the file.
[[nodiscard]] Result<ArchitectureQuery> read_architectures(std::string_view yaml_text, std::string_view file_name);

}  // namespace tidemark::formats
