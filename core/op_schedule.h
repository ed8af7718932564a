#pragma once
// An execution order of an OpList with ops run more than once and storages paged out, and its independent check: peak
// and cost worked out anew from the definition, sharing only the nouns with whoever made the schedule.
//
// Rules. First runs come in list order, and the last run is the first of the last op: the step is over then. Reads are
// served by the latest run of the writer. A result is resident from a run of its writer to the last read before the
// next run of it; other storages from their first touch (or the start) to their last. Pins extend that. A page-out
// leaves a hole strictly between two touches. While an op runs, what it reads and writes, its transient bytes and
// everything else resident count together.
//
// With a link a page takes time: core/link_replay.h says what waits for what.

#include <cstdint>
#include <string>
#include <vector>

#include "core/op_list.h"

namespace tidemark {

struct OpSchedule {
  /// A storage is last touched by the op at position `after` of `order` and needed again by the one at `before`. It is
  /// not resident at positions `gone` to `back` - 1: the run at `gone` waits until it is copied out, and copying in
  /// begins before the run at `back`. after < gone <= back <= before.
  struct Swap {
    std::int32_t storage = 0;
    std::int32_t after = 0, before = 0;
    std::int32_t gone = after + 1, back = before;
    friend bool operator==(const Swap&, const Swap&) = default;
  };
  std::vector<std::int32_t> order;  ///< op indices; each op at least once
  std::vector<Swap> swaps;          ///< by storage, then position
  friend bool operator==(const OpSchedule&, const OpSchedule&) = default;
};

struct ScheduleReplay {
  std::string fault;  ///< the first broken rule, for a person; empty: none, and only then the rest counts
  Bytes peak_bytes = 0;
  std::int32_t peak_position = 0;  ///< the first at the peak
  std::int64_t cost = 0;           ///< of all runs and pages, and what runs waited for pages, in cost quanta
  std::int64_t waited = 0;         ///< of that, waiting; 0 without a link
  Bytes host_peak_bytes = 0;       ///< of what is paged out; 0 without a link
  std::int64_t added_cost = 0;     ///< above one run of every op
  std::vector<Bytes> profile;      ///< per position of the order
};

/// The schedule that runs every op once.
[[nodiscard]] OpSchedule keep_all_schedule(const OpList& list);

/// O(positions * log + touches + storages + pages * log). Pages: a result is copied out once, whatever the number of
/// holes; a storage changed in place once a hole.
[[nodiscard]] ScheduleReplay replay_schedule(const OpList& list, const OpSchedule& schedule, RecomputeRules rules);

/// A storage resident, or the workspace of an op, at positions begin to end - 1.
struct StepResidency {
  std::int32_t storage = -1;  ///< -1: a workspace
  std::int32_t begin = 0, end = 0;
  Bytes bytes = 0;
  friend bool operator==(const StepResidency&, const StepResidency&) = default;
};

/// By storage, then time; workspaces behind them. They add up to ScheduleReplay::profile. REQUIRES: replays without
/// fault.
[[nodiscard]] std::vector<StepResidency> residencies_of(const OpList& list, const OpSchedule& schedule);

/// Storages resident while the op at `position` runs (what it touches included), ascending. REQUIRES: replays without
/// fault.
[[nodiscard]] std::vector<std::int32_t> residents_at(const OpList& list, const OpSchedule& schedule,
                                                     std::int32_t position);

}  // namespace tidemark
