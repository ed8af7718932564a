#pragma once
// Where a trace is highest, and what is live there. Pure.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "integrations/formats/attributed_trace.h"

namespace tidemark::measured {

struct TracePeak {
  Bytes allocated_bytes = 0;  ///< most live at any time
  /// Events up to and with the one that reaches it first; 0: the blocks of the start are the most.
  std::size_t events = 0;
  std::vector<std::int32_t> blocks;  ///< live then, ascending
  Bytes start_bytes = 0;             ///< live before the first event
  Bytes lowest_bytes = 0;            ///< least live at any time
  Bytes reserved_bytes = 0;          ///< most held by the allocator at any time; at least allocated_bytes
};

/// O(blocks + events).
[[nodiscard]] TracePeak peak_of(const formats::AttributedTrace& run);

}  // namespace tidemark::measured
