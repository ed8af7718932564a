#pragma once
// The field `gaps` of a minimalloc CSV: `3-7 12-15@0:512`.

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/formats/import_minimalloc_csv.h"

namespace tidemark::formats {

/// What a gap has to fit into.
struct GapPlace {
  std::int64_t lower = 0, upper = 0;  ///< life of the buffer
  Bytes bytes = 0;                    ///< of the buffer
  bool end_counts = false;            ///< the number behind the dash belongs to the gap
};

/// Appends the gaps of `text` by time, with `row` 0. Errors (bad_input), without a place: no gap, one that is empty or
/// leaves the life, a window that is empty or leaves the buffer, two gaps that meet.
[[nodiscard]] Status read_gaps(std::string_view text, const GapPlace& place, std::vector<IntervalTable::Gap>& gaps);

}  // namespace tidemark::formats
