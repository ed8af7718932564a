#include "integrations/ci/case_text.h"

#include <array>

namespace tidemark::ci {
namespace {

/// True where `text` began with it, and then is without it.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::string_view statement_of(const ReportSection& section, const ReportCase& found) {
  std::string_view text = found.line;
  constexpr std::array<std::string_view, 5> heads = {"PASS", "NEAR", "FAIL", "ERROR", "DIFF"};
  bool has_head = false;
  for (const std::string_view head : heads) has_head = has_head || take(text, std::string(head) + " ");
  for (const std::string_view head : heads) has_head = has_head || take(text, std::string(head) + ": ");
  if (!has_head) return found.line;
  if (!take(text, section.name + ": ")) take(text, section.name + " ");
  return text;
}

std::string line_with_remedy(const ReportSection& section, const ReportCase& found) {
  std::string text = found.line;
  if (found.verdict != GateVerdict::fail) return text;
  for (const std::string& line : section.remedy) text += "\n" + line;
  return text;
}

}  // namespace tidemark::ci
