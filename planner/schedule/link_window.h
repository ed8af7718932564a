#pragma once
// When the copies of swapped gaps run on a nominal timeline: D2H first come first served as data gets ready, H2D as
// late as its deadlines allow (earliest deadline first, placed backwards), one transfer at a time in each direction.
// Pure arithmetic on nanoseconds; the caller turns results back into ops, the only memory clock.

#include <cstdint>
#include <vector>

namespace tidemark::schedule {

struct CopyRequest {
  std::int64_t ready_ns = 0;     ///< data may leave the device from here
  std::int64_t deadline_ns = 0;  ///< data is needed on the device here
  std::int64_t out_ns = 0;       ///< duration on the D2H link
  std::int64_t in_ns = 0;        ///< duration on the H2D link
};

struct CopyTimes {
  std::int64_t out_end_ns = 0;   ///< device bytes are free from here
  std::int64_t in_start_ns = 0;  ///< device bytes are taken from here
};

struct LinkPlan {
  std::vector<CopyTimes> copies;        ///< per request; out_end_ns ascends
  std::vector<std::uint32_t> in_order;  ///< requests as they come in: ascending deadline and in_start_ns
  std::int64_t exposed_ns = 0;          ///< time the consumer waits in total because a copy in cannot meet its deadline
};

/// REQUIRES: requests in ascending ready_ns. O(n log n).
[[nodiscard]] LinkPlan plan_copies(const std::vector<CopyRequest>& requests);

}  // namespace tidemark::schedule
