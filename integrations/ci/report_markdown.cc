#include "integrations/ci/report_markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "integrations/ci/case_text.h"
#include "integrations/ci/safe_text.h"

namespace tidemark::ci {
namespace {

/// Text that takes blocks as long as there is room, and counts those that found none.
class Room {
 public:
  bool add(std::string_view block) {
    if (text_.size() + block.size() > kMostMarkdownBytes) {
      ++cut_;
      return false;
    }
    text_ += block;
    return true;
  }
  [[nodiscard]] std::string text() const {
    if (cut_ == 0) return text_;
    return text_ + fmt::format("\n{} {} cut here: this summary holds 1 MiB. The other reports have all of it.\n", cut_,
                               cut_ == 1 ? "part was" : "parts were");
  }

 private:
  std::string text_;
  std::size_t cut_ = 0;
};

std::string row_text(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += fmt::format(" {} |", markdown_text(cell));
  return text + "\n";
}

std::string rule_text(const ReportTable& table) {
  std::string text = "|";
  for (std::size_t i = 0; i < table.head.size(); ++i)
    text += std::ranges::find(table.left, i) != table.left.end() ? " :--- |" : " ---: |";
  return text + "\n";
}

std::string table_text(const ReportTable& table) {
  std::string text = fmt::format("\n{}\n\n{}{}", markdown_text(table.title), row_text(table.head), rule_text(table));
  for (const std::vector<std::string>& row : table.rows) text += row_text(row);
  return text;
}

std::string remedy_text(const ReportSection& section) {
  if (section.remedy.empty()) return {};
  std::string text = "\nWhat to do\n\n";
  for (const std::string& line : section.remedy) text += fmt::format("- {}\n", markdown_text(line));
  return text;
}

std::string notes_text(const ReportSection& section) {
  if (section.notes.empty()) return {};
  std::string text = "\n";
  for (const std::string& note : section.notes) text += fmt::format("- note: {}\n", markdown_text(note));
  return text;
}

std::string detail_text(const ReportSection& section) {
  if (section.tables.empty() && section.notes.empty() && section.remedy.empty()) return {};
  std::string text = fmt::format("\n### {}\n\n{}\n", markdown_text(section.name), markdown_text(section.about));
  text += notes_text(section);
  for (const ReportTable& table : section.tables) text += table_text(table);
  return text + remedy_text(section);
}

void add_cases(const Report& report, Room& room) {
  room.add("| verdict | job | finding |\n| :--- | :--- | :--- |\n");
  for (const ReportSection& section : report.sections)
    for (const ReportCase& found : section.cases)
      room.add(fmt::format("| **{}**{} | {} | {} |\n", word_of(found.verdict), found.is_waived ? " (waived)" : "",
                           markdown_text(section.name), markdown_text(statement_of(section, found))));
}

void add_notices(const Report& report, Room& room) {
  bool is_first = true;
  for (const ReportSection& section : report.sections)
    for (const std::string& notice : section.notices) {
      room.add(fmt::format("{}- {}: {}\n", is_first ? "\n" : "", markdown_text(section.name), markdown_text(notice)));
      is_first = false;
    }
}

}  // namespace

std::string markdown_report(const Report& report) {
  Room room;
  room.add(fmt::format("## {}: {}\n\n", report.title, word_of(report.verdict)));
  room.add(fmt::format("{}\n\n", markdown_text(report.summary)));
  add_cases(report, room);
  add_notices(report, room);
  for (const ReportSection& section : report.sections) room.add(detail_text(section));
  return room.text();
}

}  // namespace tidemark::ci
