#pragma once
// Which stream each task of a Program runs on and which waits it takes to keep the Program's order there.
//
// One stream a lane, and the waits of the Program: nothing else is needed, because the scheduler has added every wait
// that an order relies on.
//
// A wait that FIFO order and earlier waits imply is dropped: per stream, a clock of the tasks of every stream known to
// have completed. O(tasks + waits).

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/schedule.h"
#include "device/device.h"

namespace tidemark::swap {

struct TaskStreams {
  std::vector<StreamRole> stream;        ///< per task
  std::vector<std::int32_t> first_wait;  ///< CSR into waits, one more than tasks
  std::vector<TaskId> waits;             ///< tasks on other streams whose event this one waits for
  std::vector<std::int32_t> waiters;     ///< per task: how many waits name it; above 0: needs an event
  std::int64_t implied = 0;              ///< waits of the Program that were dropped

  [[nodiscard]] std::span<const TaskId> waits_of(TaskId task) const {
    const auto begin = static_cast<std::size_t>(first_wait[row(task)]);
    const auto end = static_cast<std::size_t>(first_wait[row(task) + 1]);
    return {waits.data() + begin, end - begin};
  }
};

[[nodiscard]] StreamRole stream_of_lane(Lane lane);

[[nodiscard]] TaskStreams bind_streams(const Schedule& schedule);

}  // namespace tidemark::swap
