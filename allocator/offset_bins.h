#pragma once
// The free ranges of one domain by size: a list a bin, and bits that tell which bins are not empty. Internal to
// OffsetAllocator (allocator/offset_allocator.h says how sizes map to bins).

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "allocator/offset_allocator.h"

namespace tidemark::allocator {

struct OffsetAllocator::Bins {
  std::uint64_t rows = 0;                      ///< bit r: row r has a non-empty bin
  std::array<std::uint32_t, kRows> columns{};  ///< bit c of [r]: bin (r, c) is not empty
  std::array<std::array<std::uint32_t, kSubBins>, kRows> heads;
  std::size_t count = 0;
  std::uint64_t latest_stamp = 0;

  Bins() {
    for (auto& row : heads) row.fill(kNone);
  }
  /// The first non-empty bin at or after (row, column); false if there is none.
  bool next(unsigned& row, unsigned& column) const {
    const std::uint32_t rest = column < kSubBins ? columns[row] & (~0U << column) : 0;
    if (rest != 0) {
      column = static_cast<unsigned>(std::countr_zero(rest));
      return true;
    }
    const std::uint64_t above = row + 1 < kRows ? rows & (~0ULL << (row + 1)) : 0;
    if (above == 0) return false;
    row = static_cast<unsigned>(std::countr_zero(above));
    column = static_cast<unsigned>(std::countr_zero(columns[row]));
    return true;
  }
};

}  // namespace tidemark::allocator
