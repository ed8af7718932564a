#include "integrations/ci/report_junit.h"

#include <fmt/format.h>

#include <string_view>

#include "integrations/ci/report_text.h"
#include "integrations/ci/safe_text.h"

namespace tidemark::ci {
namespace {

struct Counts {
  std::size_t tests = 0, failures = 0, errors = 0;
};

void count(const Report& report, const ReportSection& section, Counts& counts) {
  for (const ReportCase& found : section.cases) {
    ++counts.tests;
    if (found.verdict == GateVerdict::error)
      ++counts.errors;
    else if (is_failure(report, found.verdict))
      ++counts.failures;
  }
}

std::string counts_text(const Counts& counts) {
  return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\"", counts.tests, counts.failures,
                     counts.errors);
}

std::string case_text(const Report& report, const ReportSection& section, const ReportCase& found) {
  const std::string line = xml_text(found.line);
  std::string place;
  if (!found.where.file.empty()) place = fmt::format(" file=\"{}\"", xml_text(found.where.file));
  if (!place.empty() && found.where.line > 0) place += fmt::format(" line=\"{}\"", found.where.line);
  std::string text = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\"{}>\n", xml_text(section.name),
                                 xml_text(found.name), place);
  if (found.verdict == GateVerdict::error)
    text += fmt::format("      <error type=\"{}\" message=\"{}\">{}</error>\n", found.rule, line, line);
  else if (is_failure(report, found.verdict))
    text += fmt::format("      <failure type=\"{}\" message=\"{}\">{}</failure>\n", found.rule, line,
                        xml_text(found.line + "\n" + section_detail(section)));
  else
    text += fmt::format("      <system-out>{}</system-out>\n", line);
  return text + "    </testcase>\n";
}

/// The section alone, as text shows it.
std::string section_text(const ReportSection& section) {
  Report alone;
  alone.sections.push_back(section);
  return text_report(alone);
}

std::string suite_text(const Report& report, const ReportSection& section) {
  Counts counts;
  count(report, section, counts);
  std::string text =
      fmt::format("  <testsuite name=\"{}\" {} time=\"0\">\n", xml_text(section.name), counts_text(counts));
  text += fmt::format("    <properties>\n      <property name=\"about\" value=\"{}\"/>\n    </properties>\n",
                      xml_text(section.about));
  for (const ReportCase& found : section.cases) text += case_text(report, section, found);
  return text + fmt::format("    <system-out>{}</system-out>\n  </testsuite>\n", xml_text(section_text(section)));
}

}  // namespace

std::string junit_report(const Report& report) {
  Counts counts;
  for (const ReportSection& section : report.sections) count(report, section, counts);
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  text += fmt::format("<testsuites name=\"tidemark {}\" {} time=\"0\">\n", xml_text(report.tool_version),
                      counts_text(counts));
  for (const ReportSection& section : report.sections) text += suite_text(report, section);
  return text + "</testsuites>\n";
}

}  // namespace tidemark::ci
