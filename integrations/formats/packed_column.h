#pragma once
// Integer columns as short text for a page's script: a column of many thousand numbers
// is one JSON string of letters that need no escape.
//
//   number   digits A-Z a-z 0-9 - _ are 0 to 63; the bit 32 of a digit says that another follows, the other five are
//            the number's, lowest first; of the number the lowest bit is the sign
//   column   its scale, then its words; `*`, a distance d and a count n stand for n words that begin d words back (n
//   may
//            exceed d)
//   values   plain: the word times the scale; delta: the sum of all words so far times the scale
//
// Readers: kPictureScript (report_script.h) in the page, tests/support/unpacked_column.h.

#include <cstdint>
#include <span>
#include <string>

namespace tidemark::formats {

enum class Packing : std::uint8_t { plain, delta };

/// Deterministic; O(values). REQUIRES: every |value| and every sum of two is below 2^52, what a script's numbers hold.
[[nodiscard]] std::string packed_column(std::span<const std::int64_t> values, Packing packing);

}  // namespace tidemark::formats
