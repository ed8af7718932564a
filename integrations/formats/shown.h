#pragma once
// A piece of somebody's input as it may stand in a one-line message.

#include <string>
#include <string_view>

namespace tidemark {

/// Control characters as `?`, those of two bytes (U+0080 to U+009F) too: nothing is a command to a terminal.
[[nodiscard]] inline std::string printable(std::string_view text) {
  const auto code = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  std::string safe;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool of_two_bytes = code(i) == 0xc2 && code(i + 1) >= 0x80 && code(i + 1) < 0xa0;
    safe += code(i) < 0x20 || code(i) == 0x7f || of_two_bytes ? '?' : text[i];
    if (of_two_bytes) ++i;
  }
  return safe;
}

/// `'text'`, at most 40 characters of it, all printable: a message stays one line whatever the input holds.
[[nodiscard]] inline std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  return "'" + printable(text.substr(0, kLongest)) + (text.size() > kLongest ? "...'" : "'");
}

/// `'a', 'b', 'c' and 7 more`: of many texts the first three.
template <class Texts>
[[nodiscard]] std::string shown_some(const Texts& texts) {
  constexpr std::size_t kSome = 3;
  std::string list;
  std::size_t count = 0;
  for (const auto& text : texts) {
    if (count < kSome) list += (count > 0 ? ", " : "") + shown(text);
    ++count;
  }
  if (count > kSome) list += " and " + std::to_string(count - kSome) + " more";
  return list;
}

}  // namespace tidemark
