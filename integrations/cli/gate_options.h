#pragma once
// The options that check, baseline and diff share.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/ci/date.h"
#include "integrations/ci/report_format.h"
#include "integrations/cli/output_set.h"
#include "integrations/cli/report_outputs.h"
#include "planner/budget/limit.h"

namespace tidemark::cli {

class Console;

/// `--fail-on growth=2%`. Errors (bad_input): another word, no tolerance.
[[nodiscard]] Result<budget::Tolerance> parse_fail_on(std::string_view text);
void add_fail_on(CLI::App& app, std::optional<budget::Tolerance>& value, const std::string& help);

/// `--today 2026-12-31`.
void add_today(CLI::App& app, std::optional<ci::Date>& value);
/// The day given, else that of SOURCE_DATE_EPOCH, else the clock's, in UTC. Errors (bad_input): SOURCE_DATE_EPOCH is
/// no number of seconds.
[[nodiscard]] Result<ci::Date> today_of(const std::optional<ci::Date>& given);

/// The reports of --output, added to `outputs`; each is made when they are written. Errors: those of OutputSet::add.
template <class Found>
[[nodiscard]] Status add_reports(const std::vector<ReportOutput>& reports, const Found& result,
                                 const ci::ReportOptions& options, const std::vector<std::filesystem::path>& inputs,
                                 OutputSet& outputs) {
  for (const ReportOutput& report : reports) {
    const ci::ReportFormat format = report.format;
    Status status = outputs.add(report.path, inputs, [format, &result, options](std::ostream& stream) -> Status {
      stream << ci::write_report(format, result, options);
      return {};
    });
    if (!status) return status;
  }
  return {};
}

}  // namespace tidemark::cli
