#include "integrations/ci/report_github.h"

#include <fmt/format.h>

#include <string_view>

#include "integrations/ci/safe_text.h"
#include "integrations/formats/shown.h"

namespace tidemark::ci {
namespace {

std::string plain(std::string_view text) {
  return with_replacements(formats::printable(text));
}

/// Commands of one kind, counted beyond those that are shown.
struct Commands {
  std::string_view word;  ///< error, warning, notice
  std::size_t most = kMostAnnotations;
  std::size_t count = 0;
  std::string text;

  void add(const budget::Control& where, std::string_view title, const std::string& message) {
    if (++count > most) return;
    std::string properties;
    if (!where.file.empty()) properties += fmt::format("file={},", github_property(plain(where.file)));
    if (!where.file.empty() && where.line > 0) properties += fmt::format("line={},", where.line);
    text +=
        fmt::format("::{} {}title={}::{}\n", word, properties, github_property(plain(title)), github_message(message));
  }
  [[nodiscard]] std::size_t rest() const { return count > most ? count - most : 0; }
};

std::string message_of(const ReportSection& section, const ReportCase& found) {
  std::string message = plain(found.line);
  if (found.verdict != GateVerdict::fail) return message;
  for (const std::string& line : section.remedy) message += "\n" + plain(line);
  return message;
}

}  // namespace

std::string github_report(const Report& report) {
  Commands errors{.word = "error"}, warnings{.word = "warning"};
  Commands notices{.word = "notice", .most = kMostAnnotations - 1};  // one more says what is left out
  for (const ReportSection& section : report.sections) {
    const std::string title = fmt::format("{}: {}", report.title, section.name);
    for (const ReportCase& found : section.cases) {
      if (found.verdict == GateVerdict::pass) continue;
      Commands& commands = is_failure(report, found.verdict) ? errors : warnings;
      commands.add(found.where, title, message_of(section, found));
    }
    for (const ReportEdit& edit : section.edits)
      notices.add(edit.where, fmt::format("{}: what to do", section.name), plain(edit.text));
    const budget::Control where = section.cases.empty() ? budget::Control{} : section.cases.front().where;
    for (const std::string& notice : section.notices) notices.add(where, title, plain(notice));
  }
  std::string text = errors.text + warnings.text + notices.text;
  if (errors.rest() + warnings.rest() + notices.rest() > 0)
    text += fmt::format(
        "::notice title={}::{} more errors, {} more warnings and {} more notices are in the other reports\n",
        report.title, errors.rest(), warnings.rest(), notices.rest());
  return text + fmt::format("{}\n", plain(report.summary));
}

}  // namespace tidemark::ci
