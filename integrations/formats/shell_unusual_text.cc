#include <algorithm>

#include "integrations/formats/shell_unusual.h"

namespace tidemark::formats {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/// `MB\` and `S=8` in the next line are one word.
std::size_t continued_inside_word(std::string_view script) {
  for (std::size_t at = script.find('\\'); at != std::string_view::npos; at = script.find('\\', at + 1)) {
    const std::size_t end = script.substr(at + 1).starts_with("\r\n") ? at + 2 : at + 1;
    if (end + 1 >= script.size() || script[end] != '\n' || at == 0) continue;
    const bool is_escaped = script[at - 1] == '\\';
    if (!is_blank(script[at - 1]) && !is_blank(script[end + 1]) && !is_escaped) return at;
  }
  return std::string_view::npos;
}

/// One that ends no line, or ends where others do not: a shell keeps it as a character of a word.
std::size_t stray_return(std::string_view script) {
  const std::size_t first = script.find('\r');
  if (first == std::string_view::npos) return first;
  for (std::size_t at = first; at != std::string_view::npos; at = script.find('\r', at + 1))
    if (at + 1 < script.size() && script[at + 1] != '\n') return at;
  for (std::size_t at = script.find('\n'); at != std::string_view::npos; at = script.find('\n', at + 1))
    if (at == 0 || script[at - 1] != '\r') return first;
  return std::string_view::npos;
}

/// A line of a word alone, as ends a here-document, behind one whose end is escaped; or a delimiter that is quoted as
/// no other text is.
std::size_t odd_document(std::string_view script) {
  constexpr std::string_view kName = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
  if (script.find("<<") == std::string_view::npos) return std::string_view::npos;
  for (std::size_t at = script.find("<<"); at != std::string_view::npos; at = script.find("<<", at + 2)) {
    const std::size_t word = std::min(script.find_first_not_of("<- \t", at), script.size());
    if (script.substr(word).starts_with('$')) return at;
  }
  for (std::size_t at = script.find("\\\n"); at != std::string_view::npos; at = script.find("\\\n", at + 2)) {
    const std::size_t begin = std::min(script.find_first_not_of('\t', at + 2), script.size());
    const std::string_view line = script.substr(begin, std::min(script.find('\n', begin), script.size()) - begin);
    if (!line.empty() && line.find_first_not_of(kName) == std::string_view::npos) return at;
  }
  return std::string_view::npos;
}

}  // namespace

std::vector<ShellUnusual> unusual_text(std::string_view script) {
  std::vector<ShellUnusual> found;
  const auto add = [&found](std::size_t at, const char* what) {
    if (at != std::string_view::npos) found.push_back({at, what});
  };
  add(continued_inside_word(script), "a backslash continues the line inside a word, which is not followed");
  add(stray_return(script), "a carriage return is part of a word to the shell, which is not followed");
  add(odd_document(script), "a here-document ends in a way that is not followed");
  return found;
}

}  // namespace tidemark::formats
