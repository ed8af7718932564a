#pragma once
// Time x space as text: who holds which bytes when. For `tidemark show` and for failing tests, where a picture of a bad
// layout says more than its numbers.
//
// Columns are time, left to right; rows are addresses, the highest at the top. Every item is drawn with a letter of its
// own (a to z, A to Z, 0 to 9, then again); `.` is free, `#` a cell that several items share over its span of time and
// addresses one after the other or side by side, `!` a cell where two of them hold the same byte at the same time.

#include <cstdint>
#include <span>
#include <string>

#include "core/bytes.h"
#include "core/layout.h"
#include "core/schedule.h"

namespace tidemark {

/// One rectangle of time x space.
struct PictureItem {
  std::int32_t begin = 0;  ///< half-open, on any clock
  std::int32_t end = 0;
  Bytes offset = 0;
  Bytes bytes = 0;
};

/// `rows` lines of `columns` cells with an address axis on the left and the clock below. REQUIRES: columns > 0, rows >
/// 0.
[[nodiscard]] std::string picture(std::span<const PictureItem> items, int columns, int rows);

/// The device residencies of a layout over the compute clock.
[[nodiscard]] std::string picture(const Schedule& schedule, const Layout& layout, int columns, int rows);

}  // namespace tidemark
