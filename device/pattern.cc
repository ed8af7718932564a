#include "device/pattern.h"

namespace tidemark {
namespace {

constexpr Bytes kWord = sizeof(std::uint64_t);

}  // namespace

void fill_pattern(void* to, Bytes bytes, std::uint64_t seed, Bytes place) {
  auto* at = static_cast<unsigned char*>(to);
  std::uint64_t word = pattern_word(seed, static_cast<std::uint64_t>(place / kWord));
  for (; bytes >= kWord; bytes -= kWord, at += kWord, word += kPatternStep) std::memcpy(at, &word, sizeof word);
  std::memcpy(at, &word, static_cast<std::size_t>(bytes));
}

bool holds_pattern(const void* from, Bytes bytes, std::uint64_t seed, Bytes place) {
  const auto* at = static_cast<const unsigned char*>(from);
  std::uint64_t word = pattern_word(seed, static_cast<std::uint64_t>(place / kWord)), difference = 0, found = 0;
  for (; bytes >= kWord; bytes -= kWord, at += kWord, word += kPatternStep) {
    std::memcpy(&found, at, sizeof found);
    difference |= found ^ word;
  }
  return difference == 0 && std::memcmp(at, &word, static_cast<std::size_t>(bytes)) == 0;
}

}  // namespace tidemark
