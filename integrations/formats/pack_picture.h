#pragma once
// Time x address of a packed table, as text.

#include <string>

#include "integrations/formats/interval_problem.h"

namespace tidemark::formats {

/// Up to a thousand stays (a gap makes two of one) have the letters of their buffers (core/picture.h), with the ids
/// below where letters are enough for them all. Of more, every cell shows how much of its addresses is in use at the
/// middle of its time: `.` nothing, `1` to `9` tenths, `#` all of it. O(columns x items).
[[nodiscard]] std::string pack_picture(const IntervalTable& table, const IntervalProblem& problem,
                                       const layout::Packing& packing);

}  // namespace tidemark::formats
