#pragma once
// Which stream each task of a Program runs on and which waits it takes to keep the Program's order there.
//
// One stream a lane, but two for p2p: a receive must not stand in line behind sends, or two ranks that send first would
// wait for each other. The planner and its checker read the p2p lane as one line, so what they could conclude from it
// must still hold on two streams:
//   - a send follows every earlier receive (wait);
//   - whoever waits for a receive also waits for the sends before it, since their bytes may be given away with it;
//   - a receive takes over the waits of the sends before it (not their end): the compute task they waited for is what
//     gave it its bytes; and it waits for earlier sends that touch the same residency.
// docs/design/runtime.md has the argument.
//
// A wait that FIFO order and earlier waits imply already is dropped: per stream, a clock of the tasks of every stream
// known to have completed. O(tasks + waits).

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/program.h"
#include "device/device.h"

namespace tidemark {

struct TaskStreams {
  std::vector<StreamRole> stream;        ///< per task
  std::vector<std::int32_t> first_wait;  ///< CSR into waits, one more than tasks
  std::vector<TaskId> waits;             ///< tasks on other streams whose event this one waits for
  std::vector<std::int32_t> waiters;     ///< per task: how many waits name it; above 0: needs an event
  std::int64_t implied = 0;              ///< waits that were dropped

  [[nodiscard]] std::span<const TaskId> waits_of(TaskId task) const {
    const auto begin = static_cast<std::size_t>(first_wait[row(task)]);
    const auto end = static_cast<std::size_t>(first_wait[row(task) + 1]);
    return {waits.data() + begin, end - begin};
  }
};

/// `filled_late[residency]`: the first task that touches it fills it first, so that every other task that touches it
/// must follow that one, although the Program has them all read.
[[nodiscard]] TaskStreams bind_streams(const Program& program, const std::vector<char>& filled_late);

}  // namespace tidemark
