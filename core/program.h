#pragma once
// What crosses from planning to running: schedule, layout, estimates for simulated back ends, receive events, routing
// slots, where layers can run in chunks, and fingerprints of what it was planned for. The executor obeys it and decides
// nothing but what the expert loads of a step ask for (swap/load_ladder.h).

#include <cstdint>
#include <string>
#include <vector>

#include "core/layout.h"
#include "core/schedule.h"

namespace tidemark {

/// What a routed storage takes at expert load f, for the runtime, which meets loads other than the planned one:
/// fixed_bytes + ceil(f * rows) * row_bytes, with f the load of `rows_of` at `site` (storage_bytes, core/graph.h).
struct RoutedResidency {
  ResidencyId residency = kNone<ResidencyId>;
  SiteId site = kNone<SiteId>;
  Bytes fixed_bytes = 0;
  std::int64_t rows = 0;
  Bytes row_bytes = 0;
  RowsOf rows_of = RowsOf::received;
  friend bool operator==(const RoutedResidency&, const RoutedResidency&) = default;
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
  /// Tasks that sum rows up for their tokens: there a layer can run in chunks (core/row_sections.h); ascending.
  std::vector<TaskId> section_ends;
  std::uint64_t graph_fingerprint = 0;
  std::uint64_t machine_fingerprint = 0;
  friend bool operator==(const Program&, const Program&) = default;
};

}  // namespace tidemark
