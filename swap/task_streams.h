#pragma once
// Which stream each task of a Program runs on and which waits it takes to keep the Program's order there.
//
// One stream a lane, but two for p2p: a receive must not stand in line behind sends, or two ranks that send first would
// wait for each other (and the simulator has it pass them). Planner and checker read the p2p lane as one line, though,
// so an order they rely on may run through "this receive comes behind that send". Two things keep it:
//   - a send follows every earlier receive;
//   - where bytes rely on an order that holds on the lanes and not on the streams, the wait is added: a touch after the
//     last writer of its residency (a write: after the readers, too), a first touch after the compute task of its
//     acquire, the compute task of a release after all touches. These are all the orders a sound Program relies on
//     (docs/design/runtime.md). An order that does not hold on the lanes either is not ours to add.
//
// A wait that FIFO order and earlier waits imply is dropped: per stream, a clock of the tasks of every stream known to
// have completed. O(tasks + waits + touches).

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
  std::int64_t implied = 0;              ///< waits of the Program that were dropped
  std::int64_t added = 0;                ///< waits that two streams for p2p made necessary

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
