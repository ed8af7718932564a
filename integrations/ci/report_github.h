#pragma once
// Workflow commands of GitHub Actions: at most 10 errors and 10 warnings, which is what a step shows, then a count.
// Private to ci.

#include <cstddef>
#include <string>

#include "integrations/ci/report.h"

namespace tidemark::ci {

/// Of each kind: more than a step shows of it.
inline constexpr std::size_t kMostAnnotations = 10;

[[nodiscard]] std::string github_report(const Report& report);

}  // namespace tidemark::ci
