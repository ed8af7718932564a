#pragma once
// What an allocator counted, under the names that users of PyTorch's allocator know. Values only.
//
// Bytes: `requested` what callers asked for, `allocated` the blocks they hold, `active` these and the freed blocks that
// no stream may reuse yet, `reserved` memory taken from the device, `inactive_split` free parts of granules or segments
// that hold live blocks too (they cannot be released).

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"

namespace tidemark::allocator {

struct Counter {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t total_up = 0;    ///< everything ever added
  std::int64_t total_down = 0;  ///< everything ever taken away

  void change(std::int64_t by) {
    current += by;
    (by > 0 ? total_up : total_down) += by > 0 ? by : -by;
    if (current > peak) peak = current;
  }
  void reset_peak() { peak = current; }
};

struct AllocatorStatistics {
  Counter requested_bytes;
  Counter allocated_bytes;
  Counter active_bytes;
  Counter reserved_bytes;
  Counter inactive_split_bytes;  ///< current is computed on demand; peak is the largest computed
  Counter allocation;            ///< blocks held by callers
  Counter active;                ///< and those that are pending
  Counter segment;               ///< plain segments, and the mapped range as one

  std::int64_t num_alloc_retries = 0;  ///< allocations that met out-of-memory and tried again
  std::int64_t num_ooms = 0;           ///< allocations refused for good
  std::int64_t num_device_alloc = 0;   ///< map and allocate_plain calls
  std::int64_t num_device_free = 0;    ///< unmap and free_plain calls

  std::int64_t front_hits = 0;    ///< served from a shard's lists of freed blocks
  std::int64_t remote_frees = 0;  ///< by the lock-free stack of another shard
  std::int64_t remaps = 0;        ///< Device::remap calls, all in the growth path or defragment()
  std::int64_t harvested_granules = 0;
  std::int64_t stitched_windows = 0;  ///< made by Device::alias, all in the growth path
  std::int64_t cross_stream_reuses = 0;
  std::int64_t events_recorded = 0;
  std::int64_t host_waits = 0;    ///< waits for pending blocks before an out-of-memory
  std::int64_t stream_waits = 0;  ///< the same, left to the streams
  Bytes pending_bytes = 0;        ///< freed, not yet reusable by any stream
  Bytes cached_bytes = 0;         ///< reserved less active
  Bytes limit_bytes = 0;
};

/// One name-value pair a counter, in PyTorch's spelling: `allocated_bytes.all.peak` and so on, in a fixed order.
struct NamedStatistic {
  std::string name;
  std::int64_t value = 0;
};
[[nodiscard]] std::vector<NamedStatistic> name_statistics(const AllocatorStatistics& statistics);

}  // namespace tidemark::allocator
