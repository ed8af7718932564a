#pragma once
// Buffers with fixed life times as CSV, the format of the minimalloc benchmarks: one buffer a line, live on the
// half-open interval [lower, upper) of a logical clock.
//
//   id,lower,upper,size
//   b1,0,3,4
//   b2,3,9,4
//
// Columns may stand in any order, and docs/formats.md lists those that need not be there: the ones of minimalloc
// (`alignment`, `gaps`, `offset`, `hint`) and our own (`fixed`, `group`, `apart`). Others are noted and not used.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "integrations/formats/allocation_trace.h"

namespace tidemark::formats {

struct IntervalTable {
  struct Row {
    std::string id;          ///< no other row's
    int line = 0;            ///< of the file, from 1
    std::int64_t lower = 0;  ///< >= 0
    std::int64_t upper = 0;  ///< > lower
    Bytes bytes = 0;         ///< > 0
    Bytes alignment_bytes = 1;
    std::optional<Bytes> hint;    ///< where the buffer might lie
    std::optional<Bytes> offset;  ///< where somebody put it
    std::optional<Bytes> fixed;   ///< where it must lie
    std::int32_t group = -1;      ///< row of `groups`; -1: none
    friend bool operator==(const Row&, const Row&) = default;
  };
  /// A part of a buffer's life, [lower, upper), in which only the bytes [window_begin, window_end) of it are there.
  struct Gap {
    std::int32_t row = 0;
    std::int64_t lower = 0, upper = 0;
    Bytes window_begin = 0, window_end = 0;  ///< equal: nothing is there
    friend bool operator==(const Gap&, const Gap&) = default;
  };
  std::vector<Row> rows;  ///< in the order of the file
  std::vector<Gap> gaps;  ///< by row, then time; those of a row do not meet
  /// Rows of a group lie at one address, whatever their lives.
  std::vector<std::string> groups;
  /// Pairs of rows that must not share bytes, whatever their lives.
  std::vector<std::pair<std::int32_t, std::int32_t>> apart;
  std::vector<std::string> notes;
  friend bool operator==(const IntervalTable&, const IntervalTable&) = default;
};

/// Errors (bad_input): `file:line: what`.
[[nodiscard]] Result<IntervalTable> read_minimalloc_csv(std::string_view text, std::string_view file_name);

/// What a row holds for a while: a part of its life without a gap in it, or the window of a gap.
struct IntervalStay {
  std::int32_t row = 0;
  std::int64_t begin = 0, end = 0;  ///< half-open, not empty
  Bytes shift = 0;                  ///< where it begins within the buffer
  Bytes bytes = 0;                  ///< > 0
  bool operator==(const IntervalStay&) const = default;
};

/// The stays of every row, by row and then time. A row whose gaps leave nothing has none.
[[nodiscard]] std::vector<IntervalStay> stays_of(const IntervalTable& table);

/// The intervals as events by time; at the same time frees come before allocations, and rows in their order. In a gap
/// a buffer is freed, and comes back as another block; where a window of it stays, the window is a block. What an
/// allocator cannot be asked (groups, addresses, pairs kept apart) is noted.
[[nodiscard]] AllocationTrace trace_of(const IntervalTable& table);

}  // namespace tidemark::formats
