#include "integrations/ci/remedy_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/bytes.h"
#include "integrations/ci/report_tables.h"

namespace tidemark::ci {
namespace {

/// Without its place.
std::string edit_text(const budget::Edit& edit) {
  std::string line = edit.text;
  if (edit.saved_bytes > 0) line += fmt::format(": saves {}", format_bytes(edit.saved_bytes));
  // A launch script's edit is its flags already; other words need them beside.
  if (!edit.flags.empty() && edit.text != fmt::format("{}", fmt::join(edit.flags, " ")))
    line += fmt::format("; flags: {}", fmt::join(edit.flags, " "));
  return line;
}

std::string edit_line(const budget::Edit& edit) {
  const std::string where = control_text(edit.where);
  return edit_text(edit) + (where.empty() ? "" : fmt::format(" ({})", where));
}

std::string outcome_line(const budget::Remedy& remedy) {
  if (!remedy.clears)
    return fmt::format("no change that was looked at clears every limit{}{}",
                       remedy.is_proven ? ", and no plan of the job as it is can (proven)" : "",
                       remedy.peak_bytes > 0
                           ? fmt::format("; the least peak that was reached is {}", format_bytes(remedy.peak_bytes))
                           : std::string());
  std::string line =
      fmt::format("with this the highest peak is {} and every limit is kept", format_bytes(remedy.peak_bytes));
  return line + (remedy.step_percent ? fmt::format("; step {:+.1f} % (modelled)", *remedy.step_percent)
                                     : "; what it costs in step time is not modelled for this kind of job");
}

}  // namespace

std::vector<std::string> remedy_lines(const budget::Remedy& remedy) {
  std::vector<std::string> lines;
  for (const budget::Edit& edit : remedy.edits) lines.push_back(edit_line(edit));
  if (remedy.is_sought) lines.push_back(outcome_line(remedy));
  if (!remedy.reason.empty()) lines.push_back(remedy.reason);
  return lines;
}

std::vector<ReportEdit> placed_edits(const budget::Remedy& remedy) {
  std::vector<ReportEdit> placed;
  for (const budget::Edit& edit : remedy.edits)
    if (!edit.where.file.empty()) placed.push_back({.text = edit_text(edit), .where = edit.where});
  return placed;
}

}  // namespace tidemark::ci
