#pragma once
// What verifying launches write and look for: 64-bit words that depend on the seed and on their place, so that bytes of
// another storage, of another version, or shifted ones are all noticed.
//
// Word i of pattern(seed) is mix(seed) + i * kPatternStep, little endian; a tail shorter than a word holds its first
// bytes. Back ends without memory (sim) keep the seed and the place instead of the words.

#include <cstdint>
#include <cstring>

#include "core/bytes.h"

namespace tidemark {

inline constexpr std::uint64_t kPatternStep = 0x9E3779B97F4A7C15ULL;  ///< odd, so words differ over 2^64 places

/// First word of a pattern: a bijection of the seed (two xor-shifts around an odd multiplication).
constexpr std::uint64_t pattern_base(std::uint64_t seed) {
  seed = (seed ^ (seed >> 32)) * 0xD6E8FEB86659FD93ULL;
  return seed ^ (seed >> 29);
}

constexpr std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t i) {
  return pattern_base(seed) + i * kPatternStep;
}

/// `place`: of the first byte in the pattern, a multiple of 8.
void fill_pattern(void* to, Bytes bytes, std::uint64_t seed, Bytes place = 0);
/// Whether every byte is as fill_pattern() left it.
[[nodiscard]] bool holds_pattern(const void* from, Bytes bytes, std::uint64_t seed, Bytes place = 0);

}  // namespace tidemark
