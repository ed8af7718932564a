#pragma once
// A piece of somebody's input as it may stand in a one-line message.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "integrations/formats/utf8.h"

namespace tidemark::formats {

/// Bytes of the control character, or of the separator of lines, that begins at `at`; 0: something else begins there.
[[nodiscard]] inline std::size_t control_size(std::string_view text, std::size_t at) {
  const auto code = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  if (code(at) < 0x20 || code(at) == 0x7f) return 1;
  if (code(at) == 0xc2 && code(at + 1) >= 0x80 && code(at + 1) < 0xa0) return 2;         // to U+009F
  if (code(at) == 0xe2 && code(at + 1) == 0x80 && (code(at + 2) | 1) == 0xa9) return 3;  // U+2028 and U+2029
  return 0;
}

/// Bytes of the character that begins at `at`, if it turns the direction of what stands beside it: U+202A to U+202E or
/// U+2066 to U+2069 (Unicode Standard Annex #9); 0: it is another.
[[nodiscard]] inline std::size_t turning_size(std::string_view text, std::size_t at) {
  const auto code = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  if (code(at) != 0xe2) return 0;
  const int last = code(at + 2);
  if (code(at + 1) == 0x80) return last >= 0xaa && last <= 0xae ? 3 : 0;
  return code(at + 1) == 0x81 && last >= 0xa6 && last <= 0xa9 ? 3 : 0;
}

/// The text with `?` for each of those: it reads as it is.
[[nodiscard]] inline std::string without_turns(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = turning_size(text, at);
    plain += size > 0 ? '?' : text[at];
    at += size > 0 ? size : 1;
  }
  return plain;
}

/// Control characters, separators of lines and what turns the direction of text as `?`: the text stays on its line, is
/// no command to a terminal and reads as it is. Bytes that are no characters as `\xNN`.
[[nodiscard]] inline std::string printable(std::string_view bytes) {
  const std::string text = utf8_text(bytes);
  std::string safe;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = std::max(control_size(text, i), turning_size(text, i));
    safe += size > 0 ? '?' : text[i];
    i += size > 0 ? size : 1;
  }
  return safe;
}

/// `'text'`, at most 40 bytes of it, all printable: a message is one line whatever the input holds.
[[nodiscard]] inline std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  return "'" + printable(utf8_prefix(text, kLongest)) + (text.size() > kLongest ? "...'" : "'");
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

}  // namespace tidemark::formats
