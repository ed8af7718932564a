#pragma once
// Text out of a shell script with the line of every character, so that an argument put together from variables still
// knows where it was written. Private to formats.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::formats {

struct ShellText {
  std::string characters;
  std::vector<std::int32_t> lines;  ///< of each character, from 1
  bool unresolved = false;          ///< holds the text of something the script alone does not say
  std::int32_t lost_line = 0;  ///< of those, the line of a command that is not followed and may have set it; 0: none
  /// Characters of a default that is taken although a command that is not followed may set another value.
  struct Assumed {
    std::uint32_t at = 0;   ///< of characters
    std::int32_t line = 0;  ///< of that command
  };
  std::vector<Assumed> assumed;        ///< ascending
  std::vector<std::uint32_t> unknown;  ///< characters of what the script alone does not say; ascending

  void add(char c, std::int32_t line) {
    characters += c;
    lines.push_back(line);
  }
  void add(std::string_view text, std::int32_t line) {
    characters += text;
    lines.insert(lines.end(), text.size(), line);
  }
  void add(const ShellText& other) {
    for (const Assumed& one : other.assumed)
      assumed.push_back({static_cast<std::uint32_t>(characters.size()) + one.at, one.line});
    for (const std::uint32_t one : other.unknown)
      unknown.push_back(static_cast<std::uint32_t>(characters.size()) + one);
    characters += other.characters;
    lines.insert(lines.end(), other.lines.begin(), other.lines.end());
    unresolved |= other.unresolved;
    lost_line = std::max(lost_line, other.lost_line);
  }
  [[nodiscard]] ShellText part(std::size_t begin, std::size_t size = std::string::npos) const {
    size = std::min(size, characters.size() - begin);
    const auto first = lines.begin() + static_cast<std::ptrdiff_t>(begin);
    ShellText text{.characters = characters.substr(begin, size),
                   .lines = {first, first + static_cast<std::ptrdiff_t>(size)},
                   .unresolved = false};
    for (const std::uint32_t one : unknown)
      if (one >= begin && one - begin < size) text.unknown.push_back(one - static_cast<std::uint32_t>(begin));
    text.unresolved = !text.unknown.empty();
    text.lost_line = text.unresolved ? lost_line : 0;
    for (const Assumed& one : assumed)
      if (one.at >= begin && one.at - begin < size)
        text.assumed.push_back({one.at - static_cast<std::uint32_t>(begin), one.line});
    return text;
  }
  /// All of it stands for something the script alone does not say.
  void make_unknown(std::int32_t lost = 0) {
    unknown.clear();
    for (std::uint32_t i = 0; i < characters.size(); ++i) unknown.push_back(i);
    unresolved = true;
    lost_line = std::max(lost_line, lost);
  }
  /// The script decides what it is.
  [[nodiscard]] bool is_known() const { return !unresolved && assumed.empty(); }
  [[nodiscard]] std::int32_t assumed_line() const { return assumed.empty() ? 0 : assumed.front().line; }
  [[nodiscard]] std::int32_t line(std::int32_t otherwise) const { return lines.empty() ? otherwise : lines.front(); }
};

}  // namespace tidemark::formats
