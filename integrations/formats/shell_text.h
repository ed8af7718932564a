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

  void add(char c, std::int32_t line) {
    characters += c;
    lines.push_back(line);
  }
  void add(std::string_view text, std::int32_t line) {
    characters += text;
    lines.insert(lines.end(), text.size(), line);
  }
  void add(const ShellText& other) {
    characters += other.characters;
    lines.insert(lines.end(), other.lines.begin(), other.lines.end());
    unresolved |= other.unresolved;
  }
  [[nodiscard]] ShellText part(std::size_t begin, std::size_t size = std::string::npos) const {
    size = std::min(size, characters.size() - begin);
    const auto first = lines.begin() + static_cast<std::ptrdiff_t>(begin);
    return {.characters = characters.substr(begin, size),
            .lines = {first, first + static_cast<std::ptrdiff_t>(size)},
            .unresolved = unresolved};
  }
  [[nodiscard]] std::int32_t line(std::int32_t otherwise) const { return lines.empty() ? otherwise : lines.front(); }
};

}  // namespace tidemark::formats
