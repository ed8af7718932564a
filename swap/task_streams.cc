#include "swap/task_streams.h"

#include <algorithm>

namespace tidemark::swap {
namespace {

/// Per stream: how many of its first tasks are known to have completed.
using StreamClock = std::array<std::int32_t, kStreamRoleCount>;

constexpr std::size_t index_of(StreamRole role) {
  return static_cast<std::size_t>(role);
}

class Binder {
 public:
  explicit Binder(const Schedule& schedule) : schedule_(schedule) {
    const std::size_t tasks = schedule_.tasks.size();
    out_.stream.reserve(tasks);
    for (const Task& task : schedule_.tasks) out_.stream.push_back(stream_of_lane(task.lane));
    known_.resize(tasks);
    position_.resize(tasks);
    out_.waiters.assign(tasks, 0);
  }

  TaskStreams run() && {
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
      const auto task = id_of<TaskId>(t);
      out_.first_wait.push_back(static_cast<std::int32_t>(out_.waits.size()));
      begin(task);
      finish(task);
    }
    out_.first_wait.push_back(static_cast<std::int32_t>(out_.waits.size()));
    return std::move(out_);
  }

 private:
  /// The waits of the Program itself, latest first: it implies most.
  void begin(TaskId task) {
    own_ = index_of(out_.stream[row(task)]);
    clock_ = on_stream_[own_];
    const auto waits = schedule_.waits_of(task);
    for (std::size_t w = waits.size(); w-- > 0;)
      if (!follow(waits[w])) ++out_.implied;
  }

  /// False: implied.
  bool follow(TaskId wait) {
    const std::size_t other = index_of(out_.stream[row(wait)]);
    if (other == own_ || clock_[other] > position_[row(wait)]) return false;
    out_.waits.push_back(wait);
    ++out_.waiters[row(wait)];
    for (std::size_t s = 0; s < kStreamRoleCount; ++s) clock_[s] = std::max(clock_[s], known_[row(wait)][s]);
    return true;
  }

  void finish(TaskId task) {
    position_[row(task)] = clock_[own_];
    ++clock_[own_];
    known_[row(task)] = clock_;
    on_stream_[own_] = clock_;
  }

  const Schedule& schedule_;
  TaskStreams out_;
  std::size_t own_ = 0;                 ///< stream of the task at hand
  StreamClock clock_{};                 ///< known when it starts
  std::vector<StreamClock> known_;      ///< per task: known once it has completed
  std::vector<std::int32_t> position_;  ///< per task: on its stream
  std::array<StreamClock, kStreamRoleCount> on_stream_{};
};

}  // namespace

StreamRole stream_of_lane(Lane lane) {
  switch (lane) {
    case Lane::compute:
      return StreamRole::compute;
    case Lane::intra_comm:
      return StreamRole::intra_comm;
    case Lane::inter_comm:
      return StreamRole::inter_comm;
    case Lane::send:
      return StreamRole::send;
    case Lane::receive:
      return StreamRole::receive;
    case Lane::d2h:
      return StreamRole::d2h;
    case Lane::h2d:
      return StreamRole::h2d;
  }
  return StreamRole::compute;
}

TaskStreams bind_streams(const Schedule& schedule) {
  return Binder(schedule).run();
}

}  // namespace tidemark::swap
