#pragma once
// The formats of a report, all from one value: the same verdict whatever the format.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "integrations/ci/diff_result.h"
#include "integrations/ci/gate_result.h"
#include "integrations/ci/report_paths.h"

namespace tidemark::ci {

enum class ReportFormat : std::uint8_t { text, json, junit, sarif, github, markdown, html };
inline constexpr std::array<std::string_view, 7> kReportFormatWords = {"text",   "json",     "junit", "sarif",
                                                                       "github", "markdown", "html"};
[[nodiscard]] std::string_view word_of(ReportFormat format);

struct ReportOptions {
  bool is_explained = false;          ///< why and what to do for every job; false: for those that FAIL
  std::size_t most_contributors = 8;  ///< rows of a table, then one row of the rest
  /// Of places in the formats that are shown beside the code; text and JSON name files from the working folder.
  ReportPaths paths = {};
};

/// The whole report, ending in a newline. Deterministic; valid in its format whatever names and reasons hold.
[[nodiscard]] std::string write_report(ReportFormat format, const GateResult& result, const ReportOptions& options);
[[nodiscard]] std::string write_report(ReportFormat format, const DiffResult& result, const ReportOptions& options);

}  // namespace tidemark::ci
