#pragma once
// GitHub-flavoured Markdown for the summary of a step, below 1 MiB, with a count of what was cut.
// Private to ci.

#include <cstddef>
#include <string>

#include "integrations/ci/report.h"

namespace tidemark::ci {

/// A step summary holds 1 MiB; the rest of it is for what other tools add.
inline constexpr std::size_t kMostMarkdownBytes = 1'000'000;

[[nodiscard]] std::string markdown_report(const Report& report);

}  // namespace tidemark::ci
