#pragma once
// A piece of somebody's input as it may stand in a one-line message.

#include <string>
#include <string_view>

namespace tidemark {

/// `'text'`, at most 40 characters of it, control characters as `?`: a message stays one line whatever the input holds.
[[nodiscard]] inline std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::string quoted = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto code = static_cast<unsigned char>(c);
    quoted += code >= 0x20 && code != 0x7f ? c : '?';
  }
  if (text.size() > kLongest) quoted += "...";
  return quoted + "'";
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
