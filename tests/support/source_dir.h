#pragma once
// Where the source tree is. In a file of its own, so that nothing else is compiled anew where the tree lies elsewhere.

#include <string>

namespace tidemark::testing {

/// Absolute, without a slash behind it.
[[nodiscard]] std::string source_dir();

}  // namespace tidemark::testing
