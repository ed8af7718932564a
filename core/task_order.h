#pragma once
// Which task is certain to have completed before which starts, whatever the lanes' speeds: lane vector clocks from FIFO
// order and waits alone. O(tasks + waits) to build, O(1) to ask.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/schedule.h"

namespace tidemark {

/// Per lane: how many of its first tasks are known to have completed.
using LaneClock = std::array<std::int32_t, kLaneCount>;

class TaskOrder {
 public:
  /// REQUIRES: ids of the schedule are in range and waits name earlier tasks (check_shape).
  explicit TaskOrder(const Schedule& schedule);

  /// What has completed when `task` starts.
  [[nodiscard]] const LaneClock& at_start(TaskId task) const { return at_start_[row(task)]; }
  /// Number of `task` among the tasks of its lane.
  [[nodiscard]] std::int32_t position(TaskId task) const { return position_[row(task)]; }
  [[nodiscard]] std::size_t lane(TaskId task) const { return lane_[row(task)]; }
  /// `a` has completed whenever `b` starts.
  [[nodiscard]] bool before(TaskId a, TaskId b) const { return position(a) < at_start(b)[lane(a)]; }
  /// What has completed when everything that was issued before `task` on these lanes has.
  [[nodiscard]] LaneClock behind(std::span<const Lane> lanes, TaskId task) const;

 private:
  std::vector<LaneClock> at_start_;
  std::vector<std::int32_t> position_;
  std::vector<std::uint8_t> lane_;
  std::array<std::vector<TaskId>, kLaneCount> on_lane_;
};

}  // namespace tidemark
