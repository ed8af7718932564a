#pragma once
// What `tidemark search --architectures` prints: what became of the space, and the Pareto set of tokens a second
// against active parameters, with the best layout of each, what it leaves of memory and what binds it. All of it is
// modelled.

#include <string>

#include "planner/search/architecture_search.h"

namespace tidemark::formats {

/// Borrowed for the call.
struct ArchitectureReport {
  const search::ArchitectureSearchRequest& request;
  const search::ArchitectureSearchResult& result;
  std::size_t top = 10;  ///< fastest shown besides the Pareto set
};

[[nodiscard]] std::string architecture_search_text(const ArchitectureReport& report);
[[nodiscard]] std::string architecture_search_json(const ArchitectureReport& report);

}  // namespace tidemark::formats
