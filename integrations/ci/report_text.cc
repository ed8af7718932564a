#include "integrations/ci/report_text.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "integrations/ci/plain_words.h"
#include "integrations/ci/safe_text.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/text_table.h"

namespace tidemark::ci {
namespace {

constexpr std::size_t kIndent = 2;

/// Of other people's words: one line of characters.
std::string plain(std::string_view text) {
  return with_replacements(formats::printable(text));
}

std::string table_text(const ReportTable& table) {
  formats::TextTable text(table.head, table.left);
  for (const std::vector<std::string>& row : table.rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row) cells.push_back(plain(cell));
    text.add(std::move(cells));
  }
  return fmt::format("{}\n{}", plain(table.title), text.text(kIndent));
}

std::string lead_lines(const Report& report) {
  std::string text;
  for (const ReportSection& section : report.sections)
    for (const ReportCase& found : section.cases) text += plain(found.line) + "\n";
  for (const ReportSection& section : report.sections)
    for (const std::string& notice : section.notices)
      text += fmt::format("note: {}: {}\n", plain(section.name), plain(notice));
  return text;
}

}  // namespace

std::string section_detail(const ReportSection& section) {
  if (section.tables.empty() && section.notes.empty() && section.remedy.empty()) return {};
  std::string text = fmt::format("\n{}: {}\n", plain(section.name), plain(section.about));
  for (const std::string& note : section.notes) text += fmt::format("note: {}\n", plain(note));
  for (const ReportTable& table : section.tables) text += table_text(table);
  if (!section.remedy.empty()) text += "what to do\n";
  for (const std::string& line : section.remedy) text += fmt::format("  {}\n", plain(line));
  return text;
}

std::string text_report(const Report& report) {
  std::string text = lead_lines(report);
  for (const ReportSection& section : report.sections) text += section_detail(section);
  if (report.sections.size() != 1) text += fmt::format("{}{}\n", text.empty() ? "" : "\n", plain(report.summary));
  return without_commands(text);
}

}  // namespace tidemark::ci
