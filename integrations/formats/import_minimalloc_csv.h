#pragma once
// Buffers with fixed life times as CSV, the format of the minimalloc benchmarks: one buffer a line, live on the
// half-open interval [lower, upper) of a logical clock.
//
//   id,lower,upper,size
//   b1,0,3,4
//   b2,3,9,4
//
// Columns may stand in any order. Optional: `alignment`, `hint`, `offset`; `start,end` instead of `lower,upper` counts
// `end` in. Other columns are noted and not used.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "integrations/formats/allocation_trace.h"

namespace tidemark {

struct IntervalTable {
  struct Row {
    std::string id;
    std::int64_t lower = 0;  ///< >= 0
    std::int64_t upper = 0;  ///< > lower
    Bytes bytes = 0;         ///< > 0
    Bytes alignment_bytes = 1;
    std::optional<Bytes> hint;    ///< where the buffer should lie
    std::optional<Bytes> offset;  ///< where a packer put it
    friend bool operator==(const Row&, const Row&) = default;
  };
  std::vector<Row> rows;  ///< in the order of the file
  std::vector<std::string> notes;
  friend bool operator==(const IntervalTable&, const IntervalTable&) = default;
};

/// Errors (bad_input): `file:line: what`.
[[nodiscard]] Result<IntervalTable> read_minimalloc_csv(std::string_view text, std::string_view file_name);

/// The intervals as events by time; at the same time frees come before allocations, and rows in their order.
[[nodiscard]] AllocationTrace trace_of(const IntervalTable& table);

}  // namespace tidemark
