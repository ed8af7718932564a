#pragma once
// Event simulation of one training step over the lanes of all pipeline ranks. Modelled time only; nothing that runs
// depends on it. A lane runs its tasks in order; a task starts when its lane is free, its waits are done and, for a
// receive, when the matching send of the peer has ended. O(tasks + waits).
//
// Links are full duplex: receives have a lane of their own and take no time on it (each starts and ends when its
// message is there and the receives before it have ended). Messages must be free of circles in issue order: a rank is
// not looked at beyond a receive whose send cannot have run.
//
// Idle time of the compute lane is divided along the chain of tasks that ends it: waiting for a collective that itself
// waited for a receive counts as receive until the message came, and as communication from there.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/graph.h"
#include "core/result.h"
#include "core/schedule.h"

namespace tidemark::simulate {

/// One rank's work, as columns borrowed from a Graph or a Schedule; valid for the call only.
struct RankWork {
  std::vector<Lane> lanes;                ///< per task
  std::vector<std::int64_t> duration_ns;  ///< per task
  std::vector<std::int32_t> first_wait;   ///< CSR, one more than tasks
  std::vector<std::int32_t> waits;
  struct Message {
    std::int32_t task = 0;
    std::int32_t peer_rank = 0;
    std::int64_t tag = 0;
    bool is_send = false;
  };
  std::vector<Message> messages;  ///< ascending task; each task is on its lane, send or receive
};

/// When each task of a rank ran.
struct Timeline {
  std::vector<std::int64_t> start_ns;
  std::vector<std::int64_t> end_ns;
  std::array<std::int64_t, kLaneCount> busy_ns{};
  std::int64_t receive_wait_ns = 0;  ///< compute lane idle with only a receive to wait for: the pipeline bubble
  std::int64_t intra_wait_ns = 0;    ///< compute lane idle waiting for intra-node communication: exposed
  std::int64_t inter_wait_ns = 0;    ///< the same for inter-node communication, sends included
  std::int64_t copy_wait_ns = 0;     ///< compute lane idle waiting for D2H or H2D copies: exposed
  std::int64_t finish_ns = 0;
};

struct TaskOfRank {
  std::int32_t rank = 0, task = 0;
};

struct StepTiming {
  std::vector<Timeline> ranks;
  std::int64_t step_ns = 0;  ///< latest finish
  /// From the end of the step back to its begin: each starts when the next one listed ends.
  std::vector<TaskOfRank> longest_path;
};

/// Rank r is ranks[r]. Errors (internal): a receive without a matching send, two messages with one tag, or a deadlock,
/// named by rank and task.
[[nodiscard]] Result<StepTiming> simulate_step(std::span<const RankWork> ranks);

/// Columns of a graph with everything kept.
[[nodiscard]] RankWork work_of(const Graph& graph, std::vector<std::int64_t> durations);

/// Columns of a schedule; durations per task as given.
[[nodiscard]] RankWork work_of(const Graph& graph, const Schedule& schedule, std::vector<std::int64_t> durations);

}  // namespace tidemark::simulate
