#include "swap/task_streams.h"

#include <algorithm>

#include "core/task_order.h"

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

/// Last touches of one residency, per stream; -1: none.
struct Touched {
  std::int32_t writer = -1;
  std::array<std::int32_t, kStreamRoleCount> last{-1, -1, -1, -1, -1, -1, -1};
};

class Binder {
 public:
  Binder(const Program& program, const std::vector<char>& filled_late)
      : schedule_(program.schedule),
        filled_late_(filled_late),
        lanes_(program.schedule),
        touched_(schedule_.residencies.size()),
        filler_(schedule_.residencies.size(), kNone<TaskId>) {
    const std::size_t tasks = schedule_.tasks.size();
    out_.stream.reserve(tasks);
    for (const Task& task : schedule_.tasks) out_.stream.push_back(stream_of_lane(task.lane));
    for (const ReceiveEvent& receive : program.receives) out_.stream[row(receive.task)] = StreamRole::receive;
    known_.resize(tasks);
    position_.resize(tasks);
    out_.waiters.assign(tasks, 0);
    for (std::size_t t = 0; t < tasks; ++t)
      if (schedule_.tasks[t].lane == Lane::compute) compute_.push_back(id_of<TaskId>(t));
    list_releases();
  }

  TaskStreams run() && {
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
      const auto task = id_of<TaskId>(t);
      out_.first_wait.push_back(static_cast<std::int32_t>(out_.waits.size()));
      begin(task);
      follow_receives(task);
      follow_touches(task);
      if (schedule_.tasks[t].lane == Lane::compute) follow_released();
      finish(task);
    }
    out_.first_wait.push_back(static_cast<std::int32_t>(out_.waits.size()));
    return std::move(out_);
  }

 private:
  void list_releases() {
    for (std::size_t i = 0; i < schedule_.residencies.size(); ++i) by_release_.push_back(static_cast<std::int32_t>(i));
    std::sort(by_release_.begin(), by_release_.end(),
              [&](std::int32_t a, std::int32_t b) { return release_task(a) < release_task(b); });
  }
  /// Number of the compute task that is ordered after every touch, at its start or its end.
  [[nodiscard]] std::int32_t release_task(std::int32_t residency) const {
    return schedule_.residencies[static_cast<std::size_t>(residency)].release / 2;
  }

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
  /// Keeps an order of the lanes.
  void keep(std::int32_t earlier, TaskId task) {
    if (earlier < 0) return;
    const auto id = static_cast<TaskId>(earlier);
    if (clock_[index_of(out_.stream[row(id)])] > position_[row(id)] || !lanes_.before(id, task)) return;
    if (follow(id)) ++out_.added;
  }

  void follow_receives(TaskId task) {
    if (out_.stream[row(task)] == StreamRole::send && latest_receive_ != kNone<TaskId> && follow(latest_receive_))
      ++out_.added;
    if (out_.stream[row(task)] == StreamRole::receive) latest_receive_ = task;
  }

  void follow_touches(TaskId task) {
    for (const Schedule::Touch& touch : schedule_.touches_of(task)) {
      const Residency& r = schedule_.residencies[row(touch.residency)];
      Touched& touched = touched_[row(touch.residency)];
      keep(touched.writer, task);
      if (touch.kind == AccessKind::write)
        for (const std::int32_t reader : touched.last) keep(reader, task);
      if (r.first_task == task && r.acquire > 0 && own_ != index_of(StreamRole::compute)) {
        const auto number = static_cast<std::size_t>((r.acquire - 1) / 2);
        if (number < compute_.size()) keep(static_cast<std::int32_t>(compute_[number]), task);
      }
      follow_filler(touch.residency, task);
    }
    for (const Schedule::Touch& touch : schedule_.touches_of(task)) {
      Touched& touched = touched_[row(touch.residency)];
      touched.last[own_] = static_cast<std::int32_t>(task);
      if (touch.kind == AccessKind::write) touched.writer = static_cast<std::int32_t>(task);
    }
  }

  void follow_filler(ResidencyId residency, TaskId task) {
    if (filled_late_[row(residency)] == 0) return;
    TaskId& filler = filler_[row(residency)];
    if (filler == kNone<TaskId>) filler = task;
    if (filler != task && follow(filler)) ++out_.added;
  }

  /// What the compute task at hand releases has been touched for the last time before it.
  void follow_released() {
    const TaskId task = compute_[next_compute_];
    for (; next_release_ < by_release_.size(); ++next_release_) {
      const std::int32_t residency = by_release_[next_release_];
      if (release_task(residency) > static_cast<std::int32_t>(next_compute_)) break;
      for (const std::int32_t last : touched_[static_cast<std::size_t>(residency)].last)
        if (last != static_cast<std::int32_t>(task)) keep(last, task);
    }
    ++next_compute_;
  }

  void finish(TaskId task) {
    position_[row(task)] = clock_[own_];
    ++clock_[own_];
    known_[row(task)] = clock_;
    on_stream_[own_] = clock_;
  }

  const Schedule& schedule_;
  const std::vector<char>& filled_late_;
  TaskOrder lanes_;
  TaskStreams out_;
  std::vector<Touched> touched_;  ///< per residency
  std::vector<TaskId> filler_;    ///< per residency
  std::vector<TaskId> compute_;   ///< tasks of the compute lane
  std::vector<std::int32_t> by_release_;
  std::size_t next_release_ = 0, next_compute_ = 0;
  TaskId latest_receive_ = kNone<TaskId>;
  std::size_t own_ = 0;                 ///< stream of the task at hand
  StreamClock clock_{};                 ///< known when it starts
  std::vector<StreamClock> known_;      ///< per task: known once it has completed
  std::vector<std::int32_t> position_;  ///< per task: on its stream
  std::array<StreamClock, kStreamRoleCount> on_stream_{};
};

}  // namespace

TaskStreams bind_streams(const Program& program, const std::vector<char>& filled_late) {
  return Binder(program, filled_late).run();
}

}  // namespace tidemark
