#include "integrations/ci/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "integrations/ci/case_text.h"
#include "integrations/ci/safe_text.h"

namespace tidemark::ci {
namespace {

constexpr std::string_view kStyle =
    "body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:80em;padding:0 1em;color:#1f2328;"
    "background:#fff}table{border-collapse:collapse;margin:.5em 0 1.5em}caption{text-align:left;font-weight:600}"
    "td,th{border:1px solid #d1d9e0;padding:.2em .6em;text-align:right;vertical-align:top}.left{text-align:left}"
    "tbody tr:nth-child(even){background:#f6f8fa}.pass{color:#1a7f37}.near{color:#9a6700}.fail,.error{color:#d1242f}"
    ".pass,.near,.fail,.error{font-weight:600}";

std::string_view class_of(GateVerdict verdict) {
  constexpr std::array<std::string_view, 4> classes = {"pass", "near", "fail", "error"};
  return classes[static_cast<std::size_t>(verdict)];
}

std::string verdict_text(GateVerdict verdict) {
  return fmt::format("<span class=\"{}\">{}</span>", class_of(verdict), word_of(verdict));
}

std::string row_text(const ReportTable& table, const std::vector<std::string>& cells, std::string_view tag) {
  std::string text = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool is_left = std::ranges::find(table.left, i) != table.left.end();
    text += fmt::format("<{}{}>{}</{}>", tag, is_left ? " class=\"left\"" : "", xml_text(cells[i]), tag);
  }
  return text + "</tr>\n";
}

std::string table_text(const ReportTable& table) {
  std::string text = fmt::format("<table>\n<caption>{}</caption>\n<thead>\n{}</thead>\n<tbody>\n",
                                 xml_text(table.title), row_text(table, table.head, "th"));
  for (const std::vector<std::string>& row : table.rows) text += row_text(table, row, "td");
  return text + "</tbody>\n</table>\n";
}

std::string list_text(std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  std::string text = fmt::format("<p>{}</p>\n<ul>\n", title);
  for (const std::string& line : lines) text += fmt::format("<li>{}</li>\n", xml_text(line));
  return text + "</ul>\n";
}

std::string section_text(const ReportSection& section) {
  std::string text = fmt::format("<section>\n<h2>{} {}</h2>\n", xml_text(section.name), verdict_text(section.verdict));
  if (!section.about.empty()) text += fmt::format("<p>{}</p>\n", xml_text(section.about));
  text += "<ul>\n";
  for (const ReportCase& found : section.cases)
    text += fmt::format("<li>{}{} {}</li>\n", verdict_text(found.verdict), found.is_waived ? " (waived)" : "",
                        xml_text(statement_of(section, found)));
  text += "</ul>\n" + list_text("Notices", section.notices) + list_text("Notes", section.notes);
  for (const ReportTable& table : section.tables) text += table_text(table);
  return text + list_text("What to do", section.remedy) + "</section>\n";
}

}  // namespace

std::string html_report(const Report& report) {
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{}: {}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n<h1>{}: {}</h1>\n<p>{}</p>\n",
      report.title, word_of(report.verdict), kStyle, report.title, verdict_text(report.verdict),
      xml_text(report.summary));
  for (const ReportSection& section : report.sections) text += section_text(section);
  return text + fmt::format("<footer><p>tidemark {}</p></footer>\n</body>\n</html>\n", xml_text(report.tool_version));
}

}  // namespace tidemark::ci
