#pragma once
// Text for people and logs: the verdict of every finding first, a line each, then why and what to do, then the sum.
// Private to ci.

#include <string>

#include "integrations/ci/report.h"

namespace tidemark::ci {

/// Why and what to do of one section, after an empty line; empty: it says neither.
[[nodiscard]] std::string section_detail(const ReportSection& section);

[[nodiscard]] std::string text_report(const Report& report);

}  // namespace tidemark::ci
