#pragma once
// A finding in a report: beside its verdict and its job, and with what to do. Private to ci.

#include <string>
#include <string_view>

#include "integrations/ci/report.h"

namespace tidemark::ci {

/// Without the verdict and the name of the section that it begins with, for formats that have both in a place of their
/// own: `rank 3 (pp3): peak 61.42 GiB exceeds budget ...`. What begins otherwise is whole.
[[nodiscard]] std::string_view statement_of(const ReportSection& section, const ReportCase& found);

/// The line of a case, and of a FAIL what to do, a line each.
[[nodiscard]] std::string line_with_remedy(const ReportSection& section, const ReportCase& found);

}  // namespace tidemark::ci
