#include "integrations/ci/report_format.h"

#include "integrations/ci/report.h"
#include "integrations/ci/report_github.h"
#include "integrations/ci/report_html.h"
#include "integrations/ci/report_json.h"
#include "integrations/ci/report_junit.h"
#include "integrations/ci/report_markdown.h"
#include "integrations/ci/report_sarif.h"
#include "integrations/ci/report_text.h"

namespace tidemark::ci {
namespace {

template <class Value>
std::string written(ReportFormat format, const Value& result, const ReportOptions& options) {
  switch (format) {
    case ReportFormat::text:
      return text_report(report_of(result, options));
    case ReportFormat::json:
      return json_report(result);
    case ReportFormat::junit:
      return junit_report(report_of(with_paths(result, options.paths), options));
    case ReportFormat::sarif:
      return sarif_report(report_of(with_paths(result, options.paths), options));
    case ReportFormat::github:
      return github_report(report_of(with_paths(result, options.paths), options));
    case ReportFormat::markdown:
      return markdown_report(report_of(with_paths(result, options.paths), options));
    case ReportFormat::html:
      return html_report(report_of(with_paths(result, options.paths), options));
  }
  return {};
}

}  // namespace

std::string_view word_of(ReportFormat format) {
  return kReportFormatWords[static_cast<std::size_t>(format)];
}

std::string write_report(ReportFormat format, const GateResult& result, const ReportOptions& options) {
  return written(format, result, options);
}
std::string write_report(ReportFormat format, const DiffResult& result, const ReportOptions& options) {
  std::string text = written(format, result, options);
  if (format == ReportFormat::text && result.plans)
    text += "\n" + formats::diff_text(*result.plans, options.most_contributors);
  return text;
}

}  // namespace tidemark::ci
