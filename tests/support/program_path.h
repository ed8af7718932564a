#pragma once
// Where the built command-line program is: link tidemark_program_path.

#include <string>

namespace tidemark::testing {

/// Absolute.
[[nodiscard]] std::string program_path();

}  // namespace tidemark::testing
