#pragma once
// A schedule told per storage: when it leaves memory, how and when it is back.

#include <cstdint>
#include <vector>

#include "core/op_schedule.h"

namespace tidemark::remat {

struct Decision {
  std::int32_t storage = 0;
  bool swap = false;  ///< paged out and in; otherwise dropped and computed again
  /// Gone after that op of the list and back before that one. A storage that comes back only to compute others again
  /// leaves before the op it came back for: then the next decision about it has that op less one in `after_op`.
  std::int32_t after_op = 0, before_op = 0;
  std::int64_t cost = 0;  ///< of the run or the pages alone, in cost quanta
  friend bool operator==(const Decision&, const Decision&) = default;
};

/// By storage, then time. REQUIRES: the schedule replays without fault.
[[nodiscard]] std::vector<Decision> decisions_of(const OpList& list, const OpSchedule& schedule);

}  // namespace tidemark::remat
