#include "integrations/formats/blank_text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "integrations/formats/utf8.h"

namespace tidemark::formats {
namespace {

struct CodeRange {
  std::uint32_t first, last;
};

/// Unicode 15.1, PropList.txt and DerivedCoreProperties.txt: White_Space and Default_Ignorable_Code_Point with the
/// controls of C0 and C1; U+2800 is a pattern of no dots.
constexpr std::array<CodeRange, 20> kBlank = {
    {{0x0000, 0x0020}, {0x007f, 0x00a0}, {0x00ad, 0x00ad}, {0x034f, 0x034f}, {0x061c, 0x061c},
     {0x115f, 0x1160}, {0x1680, 0x1680}, {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x2000, 0x200f},
     {0x2028, 0x202f}, {0x205f, 0x206f}, {0x2800, 0x2800}, {0x3000, 0x3000}, {0x3164, 0x3164},
     {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfff8}, {0xe0000, 0xe0fff}}};
constexpr std::array<CodeRange, 2> kBlankOfMusic = {{{0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}}};

/// REQUIRES: the bytes of one character.
std::uint32_t code_of(std::string_view character) {
  constexpr std::array<std::uint32_t, 5> kFirstBits = {0, 0x7f, 0x1f, 0x0f, 0x07};
  std::uint32_t code = static_cast<unsigned char>(character.front()) & kFirstBits[character.size()];
  for (const char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3f);
  return code;
}

}  // namespace

bool shows_nothing(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = utf8_size(text);
    if (size == 0) return false;
    const auto holds = [code = code_of(text.substr(0, size))](const CodeRange& range) {
      return code >= range.first && code <= range.last;
    };
    if (std::ranges::none_of(kBlank, holds) && std::ranges::none_of(kBlankOfMusic, holds)) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace tidemark::formats
