#include "integrations/formats/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tidemark::formats {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;  // 0 continues nothing
}

}  // namespace

std::size_t utf8_size(std::string_view text) {
  const unsigned first = byte_at(text, 0), second = byte_at(text, 1);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;  // below: a shorter form exists
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;   // above: surrogates, beyond U+10FFFF
  if (second < least || second > most) return 0;
  for (std::size_t i = 2; i < size; ++i)
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
  return size;
}

std::size_t find_bad_utf8(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t eight = kHighBits;
    if (text.size() - at >= sizeof eight) std::memcpy(&eight, text.data() + at, sizeof eight);
    if ((eight & kHighBits) == 0) {
      at += sizeof eight;
      continue;
    }
    const std::size_t size = utf8_size(text.substr(at));
    if (size == 0) return at;
    at += size;
  }
  return std::string_view::npos;
}

Status require_utf8(std::string_view text, std::string_view file_name) {
  const std::size_t bad = find_bad_utf8(text), nul = text.find('\0'), at = std::min(bad, nul);
  if (at == std::string_view::npos) return {};
  const auto line = 1 + std::ranges::count(text.substr(0, at), '\n');
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return bad_input(fmt::format("{}:1: the file is UTF-16; save it as UTF-8", file_name));
  if (nul < bad)
    return bad_input(
        fmt::format("{}:{}: byte 0x00 is no part of a text; save the file as UTF-8, without it", file_name, line));
  return bad_input(
      fmt::format("{}:{}: byte 0x{:02x} is not UTF-8; save the file as UTF-8", file_name, line, byte_at(text, at)));
}

std::string utf8_text(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t good = std::min(find_bad_utf8(bytes), bytes.size());
    text += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    text += fmt::format("\\x{:02x}", byte_at(bytes, 0));
    bytes.remove_prefix(1);
  }
  return text;
}

std::string_view utf8_prefix(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  std::size_t end = most_bytes;
  // A character has at most four bytes; more that continue one are no characters anyway.
  for (int i = 0; i < 3 && end > 0 && (byte_at(text, end) & 0xc0) == 0x80; ++i) --end;
  return text.substr(0, end);
}

}  // namespace tidemark::formats
