#pragma once
// Commands of a shell script out of its words. Private to formats.

#include <string_view>

#include "integrations/formats/shell_tree.h"

namespace tidemark::formats {

/// Nothing is expanded and nothing executed. What is no shell syntax is named and passed over to the end of its line.
[[nodiscard]] ShellTree parse_shell(std::string_view script);

}  // namespace tidemark::formats
