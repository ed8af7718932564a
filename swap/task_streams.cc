#include "swap/task_streams.h"

#include <algorithm>

namespace tidemark {
namespace {

/// Per stream: how many of its first tasks are known to have completed.
using StreamClock = std::array<std::int32_t, kStreamRoleCount>;

constexpr std::size_t index_of(StreamRole role) {
  return static_cast<std::size_t>(role);
}

StreamRole stream_of_lane(Lane lane) {
  switch (lane) {
    case Lane::compute:
      return StreamRole::compute;
    case Lane::intra_comm:
      return StreamRole::intra_comm;
    case Lane::inter_comm:
      return StreamRole::inter_comm;
    case Lane::p2p:
      return StreamRole::send;
    case Lane::d2h:
      return StreamRole::d2h;
    case Lane::h2d:
      return StreamRole::h2d;
  }
  return StreamRole::compute;
}

class Binder {
 public:
  Binder(const Program& program, const std::vector<char>& filled_late)
      : schedule_(program.schedule),
        filled_late_(filled_late),
        filler_(schedule_.residencies.size(), kNone<TaskId>),
        last_send_(schedule_.residencies.size(), kNone<TaskId>) {
    out_.stream.reserve(schedule_.tasks.size());
    for (const Task& task : schedule_.tasks) out_.stream.push_back(stream_of_lane(task.lane));
    for (const ReceiveEvent& receive : program.receives) out_.stream[row(receive.task)] = StreamRole::receive;
    previous_send_.assign(schedule_.tasks.size(), kNone<TaskId>);
    known_.resize(schedule_.tasks.size());
    position_.resize(schedule_.tasks.size());
    out_.waiters.assign(schedule_.tasks.size(), 0);
  }

  TaskStreams run() && {
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
      const auto task = id_of<TaskId>(t);
      out_.first_wait.push_back(static_cast<std::int32_t>(out_.waits.size()));
      needed_.clear();
      for (const TaskId wait : schedule_.waits_of(task)) require(wait);
      keep_message_order(task);
      follow_fillers(task);
      settle(task);
    }
    out_.first_wait.push_back(static_cast<std::int32_t>(out_.waits.size()));
    return std::move(out_);
  }

 private:
  void require(TaskId wait) {
    needed_.push_back(wait);
    if (out_.stream[row(wait)] == StreamRole::receive && previous_send_[row(wait)] != kNone<TaskId>)
      needed_.push_back(previous_send_[row(wait)]);
  }

  void keep_message_order(TaskId task) {
    const StreamRole stream = out_.stream[row(task)];
    if (stream == StreamRole::send) {
      if (latest_receive_ != kNone<TaskId>) needed_.push_back(latest_receive_);
      const std::size_t own = needed_.size();
      // Handed to the next receive: what the send waits for, its own start, not its end.
      waits_of_sends_.insert(waits_of_sends_.end(), needed_.begin(),
                             needed_.begin() + static_cast<std::ptrdiff_t>(own));
      latest_send_ = task;
      for (const Schedule::Touch& touch : schedule_.touches_of(task)) last_send_[row(touch.residency)] = task;
    } else if (stream == StreamRole::receive) {
      previous_send_[row(task)] = latest_send_;
      needed_.insert(needed_.end(), waits_of_sends_.begin(), waits_of_sends_.end());
      waits_of_sends_.clear();
      for (const Schedule::Touch& touch : schedule_.touches_of(task))
        if (last_send_[row(touch.residency)] != kNone<TaskId>) needed_.push_back(last_send_[row(touch.residency)]);
      latest_receive_ = task;
    }
  }

  void follow_fillers(TaskId task) {
    for (const Schedule::Touch& touch : schedule_.touches_of(task)) {
      if (filled_late_[row(touch.residency)] == 0) continue;
      TaskId& filler = filler_[row(touch.residency)];
      if (filler == kNone<TaskId>) filler = task;
      if (filler != task) needed_.push_back(filler);
    }
  }

  /// Keeps of `needed_` what is not implied, latest first: it implies most.
  void settle(TaskId task) {
    const std::size_t own = index_of(out_.stream[row(task)]);
    StreamClock clock = on_stream_[own];
    std::sort(needed_.begin(), needed_.end(), [](TaskId a, TaskId b) { return a > b; });
    needed_.erase(std::unique(needed_.begin(), needed_.end()), needed_.end());
    for (const TaskId wait : needed_) {
      const std::size_t other = index_of(out_.stream[row(wait)]);
      if (clock[other] > position_[row(wait)] || other == own) {
        ++out_.implied;
        continue;
      }
      out_.waits.push_back(wait);
      ++out_.waiters[row(wait)];
      for (std::size_t s = 0; s < kStreamRoleCount; ++s) clock[s] = std::max(clock[s], known_[row(wait)][s]);
    }
    position_[row(task)] = clock[own];
    ++clock[own];
    known_[row(task)] = clock;
    on_stream_[own] = clock;
  }

  const Schedule& schedule_;
  const std::vector<char>& filled_late_;
  TaskStreams out_;
  std::vector<TaskId> needed_;
  std::vector<TaskId> waits_of_sends_;  ///< of sends since the last receive
  TaskId latest_send_ = kNone<TaskId>, latest_receive_ = kNone<TaskId>;
  std::vector<TaskId> previous_send_;       ///< per task that is a receive
  std::vector<TaskId> filler_, last_send_;  ///< per residency
  std::vector<StreamClock> known_;          ///< per task: known once it has completed
  std::vector<std::int32_t> position_;      ///< per task: on its stream
  std::array<StreamClock, kStreamRoleCount> on_stream_{};
};

}  // namespace

TaskStreams bind_streams(const Program& program, const std::vector<char>& filled_late) {
  return Binder(program, filled_late).run();
}

}  // namespace tidemark
