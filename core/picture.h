#pragma once
// Time x space as text: who holds which bytes when. For `tidemark show` and for failing tests, where a picture of a bad
// layout says more than its numbers.
//
// Columns are time, left to right; rows are addresses, the highest at the top. Every item is drawn with a letter of its
// own (a to z, A to Z, 0 to 9, then again) unless it names one; `.` is free, `#` a cell that several letters share over
// its span of time and addresses one after the other or side by side, `!` a cell where two items hold the same byte at
// the same time.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

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
  std::int32_t letter = -1;  ///< which one, from 0; -1: that of its position among the items
  std::int32_t owner = -1;   ///< items of one owner may hold the same bytes at the same time; -1: nobody's
};

/// The letters in their order. Behind the last comes the first again.
[[nodiscard]] std::string_view picture_letters();

/// `rows` lines of `columns` cells with an address axis on the left and the clock below. REQUIRES: columns > 0, rows >
/// 0.
[[nodiscard]] std::string picture(std::span<const PictureItem> items, int columns, int rows);

/// The device residencies of a layout over the compute clock.
[[nodiscard]] std::string picture(const Schedule& schedule, const Layout& layout, int columns, int rows);

}  // namespace tidemark
