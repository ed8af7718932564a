#pragma once
// The state and the recent history of an allocator, in the fields of PyTorch's memory snapshot. Values only: the pickle
// is written by integrations/formats.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "device/device.h"

namespace tidemark::allocator {

struct SnapshotBlock {
  enum class State : std::uint8_t { active_allocated, active_pending_free, inactive };
  Address address = 0;
  Bytes size = 0;
  Bytes requested_size = 0;  ///< 0 unless allocated
  State state = State::inactive;
  std::uint32_t owner = 0;  ///< the tag given at allocation
  StreamHandle stream = {};
};

struct SnapshotSegment {
  int device = 0;
  Address address = 0;
  Bytes total_size = 0;      ///< for the mapped range: one segment for each unbroken stretch of mapped granules
  Bytes allocated_size = 0;  ///< blocks held by callers
  Bytes active_size = 0;     ///< and pending ones
  Bytes requested_size = 0;
  StreamHandle stream = {};
  bool is_large = true;
  bool is_expandable = true;
  std::vector<SnapshotBlock> blocks;  ///< by address, without gaps
};

enum class TraceAction : std::uint8_t {
  alloc,
  free_requested,  ///< the caller gave it back
  free_completed,  ///< any stream, or its own, may have it again
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  oom,
};
[[nodiscard]] const char* name_of(TraceAction action);

struct TraceEvent {
  TraceAction action = TraceAction::alloc;
  Address address = 0;    ///< 0 for oom
  Bytes size = 0;         ///< of the request (alloc, oom), block or range
  Bytes device_free = 0;  ///< for oom only
  StreamHandle stream = {};
  std::int64_t time_ns = 0;  ///< Device::now_ns()
  std::uint32_t owner = 0;
};

struct Snapshot {
  std::vector<SnapshotSegment> segments;  ///< by address
  std::vector<TraceEvent> trace;          ///< oldest first; empty unless AllocatorOptions::trace_entries is set
  std::int64_t trace_dropped = 0;         ///< older events that no longer fit the ring
  std::vector<std::pair<std::string, std::string>> settings;
};

}  // namespace tidemark::allocator
