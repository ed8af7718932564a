#include "planner/simulate/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <tuple>
#include <utility>

#include "planner/graph_build/liveness.h"

namespace tidemark::simulate {
namespace {

/// What a task's start was determined by: another task of its rank, nothing, or (for a receive) another rank.
constexpr std::int32_t kNothing = -1;
constexpr std::int32_t kOtherRank = -2;

/// A moment and the task of the same rank that ends there.
struct Moment {
  std::int64_t ns = 0;
  std::int32_t task = kNothing;

  void delay_until(std::int64_t other_ns, std::int32_t other_task) {
    if (other_ns > ns) *this = {.ns = other_ns, .task = other_task};
  }
};

/// The other end of a message.
struct Partner {
  std::int32_t rank = -1;
  std::int32_t message = -1;
};

struct RankState {
  const RankWork* work = nullptr;
  Timeline timeline;
  std::vector<std::int32_t> cause;  ///< per task: the task whose end it started at, kNothing or kOtherRank
  std::vector<Partner> partners;    ///< per message
  std::vector<bool> awaited;        ///< per message: the partner of this send stands still until it has ended
  std::array<Moment, kLaneCount> lane_free;
  std::size_t next_task = 0;
  std::size_t next_message = 0;

  [[nodiscard]] std::size_t task_count() const { return work->lanes.size(); }
  /// The message of the next task, if it has one.
  [[nodiscard]] const RankWork::Message* find_message() const {
    if (next_message == work->messages.size()) return nullptr;
    const RankWork::Message& message = work->messages[next_message];
    return message.task == static_cast<std::int32_t>(next_task) ? &message : nullptr;
  }
};

class Simulation {
 public:
  explicit Simulation(std::span<const RankWork> ranks) : ranks_(ranks.size()) {
    for (std::size_t r = 0; r < ranks.size(); ++r) start(ranks_[r], ranks[r]);
  }

  Result<StepTiming> run() && {
    if (std::optional<Error> error = pair_messages()) return *std::move(error);
    for (std::size_t r = 0; r < ranks_.size(); ++r) runnable_.push_back(r);
    for (std::size_t i = 0; i < runnable_.size(); ++i) {
      if (std::optional<Error> error = advance(runnable_[i])) return *std::move(error);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].next_task < ranks_[r].task_count()) return describe_deadlock(r);
    }
    return collect();
  }

 private:
  static void start(RankState& state, const RankWork& work) {
    state.work = &work;
    const std::size_t tasks = work.lanes.size();
    assert(work.duration_ns.size() == tasks && work.first_wait.size() == tasks + 1);
    state.timeline.start_ns.resize(tasks);
    state.timeline.end_ns.resize(tasks);
    state.cause.resize(tasks, kNothing);
    state.partners.resize(work.messages.size());
    state.awaited.resize(work.messages.size(), false);
  }

  /// Finds the send of every receive by sorting both ends of every message next to each other.
  std::optional<Error> pair_messages() {
    struct End {
      std::int32_t from = 0, to = 0;
      std::int64_t tag = 0;
      bool is_receive = false;
      std::int32_t rank = 0, message = 0;
    };
    std::vector<End> ends;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const auto rank = static_cast<std::int32_t>(r);
      const RankWork& work = *ranks_[r].work;
      for (std::size_t m = 0; m < work.messages.size(); ++m) {
        const RankWork::Message& message = work.messages[m];
        if (work.lanes[static_cast<std::size_t>(message.task)] != (message.is_send ? Lane::send : Lane::receive)) {
          return internal_fault(fmt::format("rank {} task {}: a {} is not on its lane", r, message.task,
                                            message.is_send ? "send" : "receive"));
        }
        ends.push_back({.from = message.is_send ? rank : message.peer_rank,
                        .to = message.is_send ? message.peer_rank : rank,
                        .tag = message.tag,
                        .is_receive = !message.is_send,
                        .rank = rank,
                        .message = static_cast<std::int32_t>(m)});
      }
    }
    const auto key = [](const End& e) { return std::tie(e.from, e.to, e.tag); };
    std::sort(ends.begin(), ends.end(), [&](const End& a, const End& b) {
      return std::tuple_cat(key(a), std::tie(a.is_receive, a.message)) <
             std::tuple_cat(key(b), std::tie(b.is_receive, b.message));
    });
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const bool same = i > 0 && key(ends[i - 1]) == key(ends[i]);
      if (same && ends[i - 1].is_receive == ends[i].is_receive) {
        return internal_fault(fmt::format("rank {}: two messages from rank {} to rank {} have tag {}", ends[i].rank,
                                          ends[i].from, ends[i].to, ends[i].tag));
      }
      if (!ends[i].is_receive) continue;
      const auto& receive = message_at(ends[i].rank, ends[i].message);
      if (!same) {
        return internal_fault(fmt::format("rank {} task {}: no send of rank {} matches the receive with tag {}",
                                          ends[i].rank, receive.task, ends[i].from, ends[i].tag));
      }
      partner_of(ends[i].rank, ends[i].message) = {.rank = ends[i - 1].rank, .message = ends[i - 1].message};
      partner_of(ends[i - 1].rank, ends[i - 1].message) = {.rank = ends[i].rank, .message = ends[i].message};
    }
    return std::nullopt;
  }

  [[nodiscard]] const RankWork::Message& message_at(std::int32_t rank, std::int32_t message) const {
    return ranks_[static_cast<std::size_t>(rank)].work->messages[static_cast<std::size_t>(message)];
  }
  Partner& partner_of(std::int32_t rank, std::int32_t message) {
    return ranks_[static_cast<std::size_t>(rank)].partners[static_cast<std::size_t>(message)];
  }

  /// Runs a rank in issue order until its end or a receive whose send has not been looked at. That order is not the
  /// order of time: what follows the receive on other lanes may well run before it.
  std::optional<Error> advance(std::size_t rank) {
    RankState& state = ranks_[rank];
    for (; state.next_task < state.task_count(); ++state.next_task) {
      const RankWork::Message* message = state.find_message();
      if (message != nullptr && !message->is_send) {
        if (!send_has_run(state)) return std::nullopt;
        if (!run_receive(state)) return describe_wait(rank);
      } else if (!run_task(state)) {
        return describe_wait(rank);
      }
      if (message != nullptr) {
        if (message->is_send && state.awaited[state.next_message]) {
          runnable_.push_back(static_cast<std::size_t>(state.partners[state.next_message].rank));
        }
        ++state.next_message;
      }
    }
    return std::nullopt;
  }

  /// Has the send that the next receive of `state` waits for ended? If not, its rank is told to wake this one.
  bool send_has_run(RankState& state) {
    const Partner partner = state.partners[state.next_message];
    RankState& peer = ranks_[static_cast<std::size_t>(partner.rank)];
    if (peer.next_message > static_cast<std::size_t>(partner.message)) return true;
    peer.awaited[static_cast<std::size_t>(partner.message)] = true;
    return false;
  }

  /// Delays `moment` by the waits of the next task. False: it waits for a task that is not before it.
  static bool apply_waits(const RankState& state, Moment& moment) {
    const RankWork& work = *state.work;
    const auto begin = static_cast<std::size_t>(work.first_wait[state.next_task]);
    const auto end = static_cast<std::size_t>(work.first_wait[state.next_task + 1]);
    for (std::size_t w = begin; w < end; ++w) {
      const auto task = static_cast<std::size_t>(work.waits[w]);
      if (task >= state.next_task) return false;
      moment.delay_until(state.timeline.end_ns[task], work.waits[w]);
    }
    return true;
  }

  static bool run_task(RankState& state) {
    const std::size_t task = state.next_task;
    const Lane lane = state.work->lanes[task];
    Moment& free = state.lane_free[static_cast<std::size_t>(lane)];
    Moment begin = free;
    if (!apply_waits(state, begin)) return false;
    if (lane == Lane::compute && begin.ns > free.ns) attribute_idle(state, free.ns, begin);
    const std::int64_t duration = state.work->duration_ns[task];
    state.timeline.busy_ns[static_cast<std::size_t>(lane)] += duration;
    finish_task(state, begin.ns, begin.ns + duration, begin.task);
    free = {.ns = begin.ns + duration, .task = static_cast<std::int32_t>(task)};
    return true;
  }

  bool run_receive(RankState& state) {
    const Partner partner = state.partners[state.next_message];
    const auto send = static_cast<std::size_t>(message_at(partner.rank, partner.message).task);
    Moment done = state.lane_free[static_cast<std::size_t>(Lane::receive)];
    if (!apply_waits(state, done)) return false;
    done.delay_until(ranks_[static_cast<std::size_t>(partner.rank)].timeline.end_ns[send], kOtherRank);
    const auto task = static_cast<std::int32_t>(state.next_task);
    finish_task(state, done.ns, done.ns, kOtherRank);
    state.lane_free[static_cast<std::size_t>(Lane::receive)] = {.ns = done.ns, .task = task};
    return true;
  }

  static void finish_task(RankState& state, std::int64_t start_ns, std::int64_t end_ns, std::int32_t cause) {
    state.timeline.start_ns[state.next_task] = start_ns;
    state.timeline.end_ns[state.next_task] = end_ns;
    state.cause[state.next_task] = cause;
    state.timeline.finish_ns = std::max(state.timeline.finish_ns, end_ns);
  }

  /// Walks back along the tasks that follow one another without a break up to the end of the wait, and gives each its
  /// part of [idle_begin, wait.ns). A task is visited again only if it spans two idle times, so the walks are linear
  /// together.
  static void attribute_idle(RankState& state, std::int64_t idle_begin, Moment wait) {
    while (wait.ns > idle_begin && wait.task >= 0) {
      const auto task = static_cast<std::size_t>(wait.task);
      const bool is_receive = state.cause[task] == kOtherRank;
      const std::int64_t from = is_receive ? idle_begin : std::max(idle_begin, state.timeline.start_ns[task]);
      idle_counter(state.timeline, state.work->lanes[task], is_receive) += wait.ns - from;
      wait = {.ns = from, .task = state.cause[task]};
    }
  }

  static std::int64_t& idle_counter(Timeline& timeline, Lane lane, bool is_receive) {
    if (is_receive) return timeline.receive_wait_ns;
    if (lane == Lane::intra_comm) return timeline.intra_wait_ns;
    if (lane == Lane::d2h || lane == Lane::h2d) return timeline.copy_wait_ns;
    return timeline.inter_wait_ns;
  }

  [[nodiscard]] Error describe_wait(std::size_t rank) const {
    return internal_fault(fmt::format("deadlock: rank {} task {} waits for a task that does not come before it", rank,
                                      ranks_[rank].next_task));
  }

  [[nodiscard]] Error describe_deadlock(std::size_t rank) const {
    const RankState& state = ranks_[rank];
    const RankWork::Message& receive = state.work->messages[state.next_message];
    const Partner partner = state.partners[state.next_message];
    return internal_fault(
        fmt::format("deadlock: rank {} task {} waits for the message with tag {} that rank {} sends in task {}, but "
                    "rank {} stands still at task {}",
                    rank, state.next_task, receive.tag, partner.rank, message_at(partner.rank, partner.message).task,
                    partner.rank, ranks_[static_cast<std::size_t>(partner.rank)].next_task));
  }

  /// What the start of a task was determined by. A receive takes no time, so of what ends with it the sender counts.
  [[nodiscard]] std::optional<TaskOfRank> cause_of(const TaskOfRank& at) const {
    const RankState& state = ranks_[static_cast<std::size_t>(at.rank)];
    const auto task = static_cast<std::size_t>(at.task);
    if (state.cause[task] != kOtherRank) {
      if (state.cause[task] == kNothing) return std::nullopt;
      return TaskOfRank{.rank = at.rank, .task = state.cause[task]};
    }
    const auto message = std::ranges::lower_bound(state.work->messages, at.task, {}, &RankWork::Message::task);
    const Partner partner = state.partners[static_cast<std::size_t>(message - state.work->messages.begin())];
    const std::int32_t send = message_at(partner.rank, partner.message).task;
    const std::int64_t end_ns = state.timeline.end_ns[task];
    if (ranks_[static_cast<std::size_t>(partner.rank)].timeline.end_ns[static_cast<std::size_t>(send)] == end_ns)
      return TaskOfRank{.rank = partner.rank, .task = send};
    for (std::int32_t w = state.work->first_wait[task]; w < state.work->first_wait[task + 1]; ++w)
      if (const std::int32_t wait = state.work->waits[static_cast<std::size_t>(w)];
          state.timeline.end_ns[static_cast<std::size_t>(wait)] == end_ns)
        return TaskOfRank{.rank = at.rank, .task = wait};
    if (message == state.work->messages.begin()) return std::nullopt;
    // The receive before it on the lane.
    for (auto before = message; before-- != state.work->messages.begin();)
      if (!before->is_send) return TaskOfRank{.rank = at.rank, .task = before->task};
    return std::nullopt;
  }

  [[nodiscard]] std::vector<TaskOfRank> longest_path() const {
    TaskOfRank last;
    std::int64_t end_ns = -1;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const auto& ends = ranks_[r].timeline.end_ns;
      if (ends.empty() || ranks_[r].timeline.finish_ns <= end_ns) continue;
      end_ns = ranks_[r].timeline.finish_ns;
      last = {.rank = static_cast<std::int32_t>(r),
              .task = static_cast<std::int32_t>(std::ranges::max_element(ends) - ends.begin())};
    }
    std::vector<TaskOfRank> path;
    if (end_ns < 0) return path;
    for (std::optional<TaskOfRank> at = last; at; at = cause_of(*at)) path.push_back(*at);
    return path;
  }

  StepTiming collect() {
    StepTiming timing{.longest_path = longest_path()};
    for (RankState& state : ranks_) {
      timing.step_ns = std::max(timing.step_ns, state.timeline.finish_ns);
      timing.ranks.push_back(std::move(state.timeline));
    }
    return timing;
  }

  std::vector<RankState> ranks_;
  std::vector<std::size_t> runnable_;  ///< grows by a rank each time a message it stood still for has been sent
};

}  // namespace

Result<StepTiming> simulate_step(std::span<const RankWork> ranks) {
  return Simulation(ranks).run();
}

RankWork work_of(const Graph& graph, std::vector<std::int64_t> durations) {
  assert(durations.size() == graph.ops.size());
  graph_build::OpWaits waits = graph_build::analyse_waits(graph);
  RankWork work{.duration_ns = std::move(durations), .first_wait = std::move(waits.first)};
  work.lanes.reserve(graph.ops.size());
  for (const Op& op : graph.ops) work.lanes.push_back(graph.op_templates[row(op.op_template)].lane);
  work.waits.reserve(waits.predecessors.size());
  for (const OpId op : waits.predecessors) work.waits.push_back(static_cast<std::int32_t>(op));
  for (const Message& message : graph.messages) {
    work.messages.push_back({.task = static_cast<std::int32_t>(message.op),
                             .peer_rank = message.peer_rank,
                             .tag = message.tag,
                             .is_send = message.is_send});
  }
  return work;
}

RankWork work_of(const Graph& graph, const Schedule& schedule, std::vector<std::int64_t> durations) {
  assert(durations.size() == schedule.tasks.size());
  RankWork work{.duration_ns = std::move(durations)};
  work.lanes.reserve(schedule.tasks.size());
  work.first_wait.reserve(schedule.tasks.size() + 1);
  std::size_t message = 0;  // messages share one lane, so tasks meet them in the order of the graph
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const Task& task = schedule.tasks[t];
    work.lanes.push_back(task.lane);
    work.first_wait.push_back(task.first_wait);
    if (task.kind != TaskKind::op || message == graph.messages.size() || graph.messages[message].op != task.op)
      continue;
    const Message& m = graph.messages[message++];
    work.messages.push_back(
        {.task = static_cast<std::int32_t>(t), .peer_rank = m.peer_rank, .tag = m.tag, .is_send = m.is_send});
  }
  assert(message == graph.messages.size());
  work.first_wait.push_back(static_cast<std::int32_t>(schedule.waits.size()));
  work.waits.reserve(schedule.waits.size());
  for (const TaskId wait : schedule.waits) work.waits.push_back(static_cast<std::int32_t>(wait));
  return work;
}

}  // namespace tidemark::simulate
