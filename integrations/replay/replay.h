#pragma once
// Runs a trace through an allocator on a simulated device: how much memory it would take, and how long its decisions
// take on this machine.
//
// Blocks that were live at the start are allocated first, in their order. The first pass over the events gives the
// memory figures and checks that no two live blocks overlap. Further passes, on the now warm allocator, are timed.

#include <cstdint>
#include <optional>
#include <string>

#include "core/bytes.h"
#include "core/result.h"
#include "integrations/formats/allocation_trace.h"

namespace tidemark::replay {

enum class ReplayAllocator : std::uint8_t { caching, planned, baseline };
[[nodiscard]] std::string name_of(ReplayAllocator allocator, bool expandable);

struct ReplayRequest {
  ReplayAllocator allocator = ReplayAllocator::caching;
  bool expandable = false;   ///< of the baseline
  Bytes capacity_bytes = 0;  ///< of the simulated device; 0: ample
  Bytes tail_pad_bytes = 0;  ///< DeviceTraits::tail_pad_bytes of the simulated device; 32 on Ascend
  std::int64_t timed_operations =
      200'000;  ///< so many are timed, in whole passes, 1,000 at most and for seconds only; 0: none
};

struct ReplayFigures {
  std::string allocator;
  std::string device;  ///< what was simulated
  Bytes granule_bytes = 0;
  Bytes peak_reserved_bytes = 0;
  Bytes end_reserved_bytes = 0;
  double ns_per_operation = 0;    ///< measured: best pass; an operation is an allocation or a free of the trace
  std::int64_t timed_passes = 0;  ///< ends early where what the passes before left behind has no room for another
  std::string no_room;            ///< what the first pass found no room for; empty: the trace fits

  struct Planned {
    std::string packer;
    Bytes height_bytes = 0;
    Bytes load_bytes = 0;          ///< lower bound of the height: blocks rounded to the device's alignment
    std::int64_t served = 0;       ///< of the first pass
    std::int64_t not_planned = 0;  ///< of the first pass
  };
  std::optional<Planned> planned;
};

/// A device that is too small is an answer: `no_room`. Errors: bad_input for more streams than the caching allocator
/// takes; internal if the allocator hands out bytes that are in use.
[[nodiscard]] Result<ReplayFigures> replay(const formats::AllocationTrace& trace, const ReplayRequest& request);

}  // namespace tidemark::replay
