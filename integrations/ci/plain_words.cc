#include "integrations/ci/plain_words.h"

#include <cstddef>

#include "integrations/formats/blank_text.h"
#include "integrations/formats/shown.h"

namespace tidemark::ci {
namespace {

constexpr std::string_view kCommand = "::", kOlderCommand = "##[";

bool turns_direction(std::string_view text) {
  return formats::without_turns(text) != text;
}

/// A runner drops blanks before it looks.
std::size_t first_of(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos ? line.size() : first;
}

std::string line_without_commands(std::string_view line) {
  std::string text(line);
  const std::size_t first = first_of(line);
  if (line.substr(first).starts_with(kCommand)) text.insert(first, 1, '\\');
  for (std::size_t at = text.find(kOlderCommand); at != std::string::npos; at = text.find(kOlderCommand, at + 1))
    text.insert(at + 2, 1, '\\');
  return text;
}

std::optional<std::string_view> unfit_for_runners(std::string_view text) {
  if (text.substr(first_of(text)).starts_with(kCommand))
    return "begins with '::', which a CI runner takes for a command; begin with a letter";
  if (text.find(kOlderCommand) != std::string_view::npos)
    return "holds '##[', which a CI runner takes for a command; write it without";
  return std::nullopt;
}

constexpr std::string_view kTurns = "has characters that turn the direction of text; write it without them";
constexpr std::string_view kShowsNothing =
    "shows nothing: it has blanks and characters without width alone; write words";

}  // namespace

std::optional<std::string_view> unfit_words(std::string_view text) {
  if (turns_direction(text)) return kTurns;
  if (formats::printable(text) != text) return "has control characters; write it on one line";
  if (formats::shows_nothing(text)) return kShowsNothing;
  return unfit_for_runners(text);
}

std::optional<std::string_view> unfit_text(std::string_view text) {
  if (turns_direction(text)) return kTurns;
  if (formats::shows_nothing(text)) return kShowsNothing;
  return unfit_for_runners(formats::printable(text));
}

std::string without_commands(std::string_view log) {
  std::string text;
  while (!log.empty()) {
    const std::size_t end = log.find('\n');
    text += line_without_commands(log.substr(0, end));
    if (end == std::string_view::npos) break;
    text += '\n';
    log.remove_prefix(end + 1);
  }
  return text;
}

}  // namespace tidemark::ci
