#pragma once
// `--output FORMAT=PATH`, repeatable: reports of one run in several formats.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/ci/report_format.h"
#include "integrations/cli/options.h"

namespace tidemark::cli {

struct ReportOutput {
  ci::ReportFormat format = ci::ReportFormat::text;
  std::filesystem::path path;  ///< `-`: stdout, in place of the text for people
};

/// `junit=out/report.xml`. Errors (bad_input): no `=`, an unknown format (with a near miss), no path.
[[nodiscard]] Result<ReportOutput> parse_report_output(std::string_view text);
void add_report_outputs(CLI::App& app, std::vector<ReportOutput>& outputs);

/// The words of the formats, in their order.
[[nodiscard]] std::vector<std::string> report_format_words();

}  // namespace tidemark::cli
