#pragma once
// What this program was built from.

#include <string>
#include <utility>
#include <vector>

namespace tidemark::cli {

/// `0.1.0`.
[[nodiscard]] std::string version_number();

/// What is compiled in and what is loaded, as (name, version) pairs: revision, compiler, build type, packages.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> build_facts();

/// `tidemark 0.1.0` and a line per fact.
[[nodiscard]] std::string version_text();

}  // namespace tidemark::cli
