#pragma once
// What crosses from planning to running: schedule, layout, estimates for simulated back ends, receive events, routing
// slots, the contingency list, and fingerprints of what it was planned for. The executor obeys it and decides nothing.

#include <cstdint>
#include <string>
#include <vector>

#include "core/layout.h"
#include "core/plan.h"
#include "core/schedule.h"

namespace tidemark {

/// An answer to expert load above the planned bound: swap this storage out across its gap after all. Local: no other
/// rank is involved. The storage comes back to its planned offset, so no other residency moves; in between its bytes
/// are a hole for the dynamic region.
struct Contingency {
  std::int64_t trigger_bytes = 0;  ///< applied when the dynamic demand at `trigger` exceeds this
  TaskId trigger = kNone<TaskId>;  ///< decision point: the last task that touches the storage before its gap
  ResidencyId residency = kNone<ResidencyId>;  ///< the device residency that is split
  Bytes freed_bytes = 0;
  TaskId release_at = kNone<TaskId>;   ///< compute task that waits for the copy out; bytes are free from it
  TaskId prefetch_at = kNone<TaskId>;  ///< compute task after which the copy in may start; bytes are taken again
  TaskId needed_at = kNone<TaskId>;    ///< task that waits for the copy in
  bool collective = false;             ///< true: only after agree(group, level)
  friend bool operator==(const Contingency&, const Contingency&) = default;
};

/// A message from another pipeline rank.
struct ReceiveEvent {
  TaskId task = kNone<TaskId>;
  std::int32_t peer_rank = 0;
  std::int64_t tag = 0;
  std::int64_t arrival_estimate_ns = 0;
  friend bool operator==(const ReceiveEvent&, const ReceiveEvent&) = default;
};

struct Program {
  Schedule schedule;
  Layout layout;
  std::vector<std::int64_t> estimate_ns;  ///< per task; played by simulated back ends only
  std::vector<ReceiveEvent> receives;
  std::vector<ResidencyId> routing_slots;  ///< recorded routing that recipes replay
  std::vector<Contingency> contingencies;  ///< in the order they are applied
  double contingency_limit_f = 1;  ///< largest uniform expert load this program carries with all of them applied
  std::uint64_t graph_fingerprint = 0;
  std::uint64_t machine_fingerprint = 0;
  friend bool operator==(const Program&, const Program&) = default;
};

}  // namespace tidemark
