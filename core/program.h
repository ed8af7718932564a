#pragma once
// What crosses from planning to running: schedule, layout, estimates for simulated back ends, receive events, routing
// slots, the contingency list, and fingerprints of what it was planned for. The executor obeys it and decides nothing.

#include <cstdint>
#include <string>
#include <vector>

#include "core/layout.h"
#include "core/schedule.h"

namespace tidemark {

/// What a routed storage takes at expert load f, for the runtime, which meets loads other than the planned one:
/// fixed_bytes + ceil(f * rows) * row_bytes, with f the load of `site` (storage_bytes in core/graph.h).
struct RoutedResidency {
  ResidencyId residency = kNone<ResidencyId>;
  SiteId site = kNone<SiteId>;
  Bytes fixed_bytes = 0;
  std::int64_t rows = 0;
  Bytes row_bytes = 0;
  friend bool operator==(const RoutedResidency&, const RoutedResidency&) = default;
};

/// An answer to expert load above the planned bound: this routed storage gives its bytes back across its gap after all,
/// by a swap or by recomputing it. No other residency of the plan moves; what it gives back are the granules that it
/// took beyond its slot.
struct Contingency {
  enum class Kind : std::uint8_t { swap, recompute };
  Kind kind = Kind::swap;
  std::int64_t trigger_bytes = 0;  ///< applied when the storage's actual bytes exceed this
  TaskId trigger = kNone<TaskId>;  ///< decision point: the last task that touches the storage before its gap
  ResidencyId residency = kNone<ResidencyId>;  ///< the device residency that is split
  Bytes freed_bytes = 0;                       ///< granules beyond its slot, given back at the limit, in bytes
  TaskId release_at = kNone<TaskId>;           ///< compute task that waits for the copy out; bytes are free from it
  TaskId prefetch_at = kNone<TaskId>;  ///< compute task after which the bytes are taken again and the copy in may start
  TaskId needed_at = kNone<TaskId>;    ///< task that waits for the copy in; the steps run just before it
  Bytes host_offset = -1;              ///< swap: in the pinned arena, with room for the storage at collective_limit_f
  std::int32_t first_step = 0;         ///< recompute: Program::contingency_steps [first_step, first_step + step_count)
  std::int32_t step_count = 0;
  friend bool operator==(const Contingency&, const Contingency&) = default;
};

/// One op of a recompute contingency, on the compute lane.
struct ContingencyStep {
  OpTemplateId op_template = kNone<OpTemplateId>;
  std::int64_t estimate_ns = 0;
  std::vector<Schedule::Touch> touches;
  friend bool operator==(const ContingencyStep&, const ContingencyStep&) = default;
};

/// Where a chunk of a storage stands while its DispatchSection runs in chunks; room for one at collective_limit_f.
struct ChunkBuffer {
  ResidencyId residency = kNone<ResidencyId>;  ///< routed, of the first arena, touched by the section alone
  Bytes offset = 0;                            ///< in the first arena
  friend bool operator==(const ChunkBuffer&, const ChunkBuffer&) = default;
};

/// The collective answer to expert load above the planned bound: the tasks of one (chunk, layer, micro-batch) that
/// touch the storages named run `chunks` times on as many parts of their rows, once the whole expert group has agreed
/// to it. The rule is in core/dispatch_section.h.
struct DispatchSection {
  std::int32_t chunks = 2;
  std::int32_t first_buffer = 0;  ///< Program::chunk_buffers [first_buffer, first_buffer + buffer_count)
  std::int32_t buffer_count = 0;
  friend bool operator==(const DispatchSection&, const DispatchSection&) = default;
};

/// A message to another pipeline rank: sends and receives of equal tag match.
struct SendEvent {
  TaskId task = kNone<TaskId>;
  std::int32_t peer_rank = 0;
  std::int64_t tag = 0;
  friend bool operator==(const SendEvent&, const SendEvent&) = default;
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
  std::vector<std::int64_t> estimate_ns;   ///< per task; played by simulated back ends only
  std::vector<SendEvent> sends;            ///< ascending task
  std::vector<ReceiveEvent> receives;      ///< ascending task
  std::vector<RoutedResidency> routed;     ///< ascending residency
  std::vector<ResidencyId> routing_slots;  ///< recorded routing that recipes replay
  std::vector<Contingency> contingencies;  ///< ascending trigger
  std::vector<ContingencyStep> contingency_steps;
  std::vector<DispatchSection> sections;  ///< ascending first task
  std::vector<ChunkBuffer> chunk_buffers;
  /// Whatever the loads of the sites do, as long as none exceeds this, the dynamic region and the holes of the
  /// plan (core/hole_granules.h) hold what exceeds the slots.
  double contingency_limit_f = 1;
  /// The same where the expert group agrees to every section that is asked for; at least contingency_limit_f.
  double collective_limit_f = 1;
  std::uint64_t graph_fingerprint = 0;
  std::uint64_t machine_fingerprint = 0;
  friend bool operator==(const Program&, const Program&) = default;
};

}  // namespace tidemark
