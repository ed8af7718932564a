// A whole Program: schedule, layout, and the contingency list.
//
// Applying a contingency splits one residency in two at the same offset and adds waits; no other residency moves and no
// wait goes away. So an order that holds in the Program as planned holds with any contingencies applied, and each
// contingency can be checked alone, relying on the planned order and its own waits only: if every one holds, every
// prefix does. Only contingencies that split the same residency meet, and their windows must not.

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "core/verify_parts.h"

namespace tidemark {
namespace verify {
namespace {

bool within(std::int32_t value, std::size_t size) {
  return value >= 0 && static_cast<std::size_t>(value) < size;
}

// Tasks that touch each residency a contingency names, in issue order.
class TouchingTasks {
 public:
  explicit TouchingTasks(const Program& program) : slot_(program.schedule.residencies.size(), -1) {
    for (const Contingency& c : program.contingencies) {
      if (!within(static_cast<std::int32_t>(c.residency), slot_.size()) || slot_[row(c.residency)] >= 0) continue;
      slot_[row(c.residency)] = static_cast<std::int32_t>(tasks_.size());
      tasks_.emplace_back();
    }
    if (tasks_.empty()) return;
    for (std::size_t t = 0; t < program.schedule.tasks.size(); ++t) {
      for (const Schedule::Touch& touch : program.schedule.touches_of(id_of<TaskId>(t))) {
        const std::int32_t slot = slot_[row(touch.residency)];
        if (slot >= 0) tasks_[static_cast<std::size_t>(slot)].push_back({id_of<TaskId>(t), touch.kind});
      }
    }
  }

  struct Touching {
    TaskId task = kNone<TaskId>;
    AccessKind kind = AccessKind::read;
  };
  [[nodiscard]] const std::vector<Touching>& of(ResidencyId residency) const {
    return tasks_[static_cast<std::size_t>(slot_[row(residency)])];
  }

 private:
  std::vector<std::int32_t> slot_;
  std::vector<std::vector<Touching>> tasks_;
};

class ContingencyCheck {
 public:
  ContingencyCheck(const Graph& graph, const Program& program, const TaskOrder& order)
      : graph_(graph), program_(program), schedule_(program.schedule), order_(order), touching_(program) {}

  Found run() {
    for (std::size_t i = 0; i < program_.contingencies.size(); ++i) {
      const Contingency& c = program_.contingencies[i];
      for (const auto rule : {&ContingencyCheck::check_ids, &ContingencyCheck::check_points,
                              &ContingencyCheck::check_before, &ContingencyCheck::check_after}) {
        if (std::string why = (this->*rule)(c); !why.empty()) return broken(i, c, why);
      }
    }
    return check_windows();
  }

 private:
  [[nodiscard]] std::string check_ids(const Contingency& c) const;
  [[nodiscard]] std::string check_points(const Contingency& c) const;
  [[nodiscard]] std::string check_before(const Contingency& c) const;
  [[nodiscard]] std::string check_after(const Contingency& c) const;
  [[nodiscard]] Found check_windows() const;

  [[nodiscard]] Violation broken(std::size_t index, const Contingency& c, const std::string& why) const {
    std::string what = fmt::format("contingency {}", index);
    if (within(static_cast<std::int32_t>(c.residency), schedule_.residencies.size())) {
      what += " on " + name_of(&graph_, schedule_.residencies[row(c.residency)].storage);
    }
    return {.rule = Violation::Rule::contingency, .detail = what + ": " + why};
  }
  [[nodiscard]] std::string name(TaskId task) const { return name_of(&graph_, schedule_, task); }
  [[nodiscard]] bool on_compute(TaskId task) const { return schedule_.tasks[row(task)].lane == Lane::compute; }
  /// `task` has completed when something starts that follows both `start`'s start and the completion of `also`.
  [[nodiscard]] bool known(TaskId task, TaskId start, TaskId also) const {
    return order_.before(task, start) || task == also || order_.before(task, also);
  }

  const Graph& graph_;
  const Program& program_;
  const Schedule& schedule_;
  const TaskOrder& order_;
  TouchingTasks touching_;
};

std::string ContingencyCheck::check_ids(const Contingency& c) const {
  if (!within(static_cast<std::int32_t>(c.residency), schedule_.residencies.size()))
    return "its residency does not exist";
  for (const TaskId task : {c.trigger, c.release_at, c.prefetch_at, c.needed_at}) {
    if (!within(static_cast<std::int32_t>(task), schedule_.tasks.size())) {
      return fmt::format("its task {} does not exist", static_cast<std::int32_t>(task));
    }
  }
  const Residency& residency = schedule_.residencies[row(c.residency)];
  if (residency.space != MemorySpace::device) return "only device memory can be swapped out";
  if (!graph_.template_of(residency.storage).swappable) return "the storage must not be swapped";
  if (c.trigger_bytes < 0 || c.freed_bytes < 0 || c.freed_bytes > residency.bytes) {
    return fmt::format("it frees {} of {} bytes when demand exceeds {}", c.freed_bytes, residency.bytes,
                       c.trigger_bytes);
  }
  return {};
}

// The four points in issue order, so that the added copies and waits cannot form a circle.
std::string ContingencyCheck::check_points(const Contingency& c) const {
  if (!on_compute(c.release_at) || !on_compute(c.prefetch_at)) return "its bytes change hands off the compute lane";
  if (c.trigger < c.release_at && c.release_at <= c.prefetch_at && c.prefetch_at < c.needed_at) return {};
  return fmt::format("trigger {}, release {}, prefetch {} and need {} are not in order", row(c.trigger),
                     row(c.release_at), row(c.prefetch_at), row(c.needed_at));
}

// The copy out starts when `trigger` has completed; `release_at` waits for it, and the bytes are free from there.
std::string ContingencyCheck::check_before(const Contingency& c) const {
  bool touched = false;
  for (const auto& [task, kind] : touching_.of(c.residency)) {
    if (task > c.trigger) break;
    touched = touched || task == c.trigger;
    if (kind == AccessKind::write && task != c.trigger && !order_.before(task, c.trigger)) {
      return fmt::format("the copy out does not wait for {}, which writes it", name(task));
    }
    if (!known(task, c.release_at, c.trigger)) {
      return fmt::format("its bytes are released at {}, which does not wait for {}", name(c.release_at), name(task));
    }
  }
  return touched ? "" : fmt::format("{} does not touch it", name(c.trigger));
}

// The copy in starts when `prefetch_at` has completed; `needed_at` waits for it and every later touch for `needed_at`.
std::string ContingencyCheck::check_after(const Contingency& c) const {
  bool touched = false;
  for (const auto& [task, kind] : touching_.of(c.residency)) {
    if (task <= c.trigger) continue;
    if (task < c.needed_at) return fmt::format("{} touches it while it is out", name(task));
    touched = touched || task == c.needed_at;
    const bool next_on_lane = order_.lane(task) == order_.lane(c.needed_at);
    if (task != c.needed_at && !next_on_lane && !order_.before(c.needed_at, task)) {
      return fmt::format("{} touches it without waiting for the copy in", name(task));
    }
  }
  return touched ? "" : fmt::format("{} does not touch it", name(c.needed_at));
}

// Two contingencies may split one residency if one window is over before the other begins.
Found ContingencyCheck::check_windows() const {
  std::vector<std::size_t> order(program_.contingencies.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) {
    const Contingency& c = program_.contingencies[i];
    return std::tuple(c.residency, c.trigger, i);
  });
  for (std::size_t k = 1; k < order.size(); ++k) {
    const Contingency& earlier = program_.contingencies[order[k - 1]];
    const Contingency& later = program_.contingencies[order[k]];
    if (earlier.residency == later.residency && later.trigger < earlier.needed_at) {
      return broken(order[k], later, fmt::format("contingency {} has it out at the same time", order[k - 1]));
    }
  }
  return {};
}

Found check_columns(const Program& program) {
  const auto shape = [](std::string detail) {
    return Violation{.rule = Violation::Rule::schedule_shape, .detail = std::move(detail)};
  };
  const Schedule& schedule = program.schedule;
  if (!program.estimate_ns.empty() && program.estimate_ns.size() != schedule.tasks.size()) {
    return shape(fmt::format("{} estimates for {} tasks", program.estimate_ns.size(), schedule.tasks.size()));
  }
  for (const ReceiveEvent& receive : program.receives) {
    const auto task = static_cast<std::int32_t>(receive.task);
    if (!within(task, schedule.tasks.size()) || schedule.tasks[row(receive.task)].lane != Lane::p2p) {
      return shape(fmt::format("receive event of task {}, which is not on the p2p lane", task));
    }
  }
  for (const ResidencyId slot : program.routing_slots) {
    if (!within(static_cast<std::int32_t>(slot), schedule.residencies.size())) {
      return shape(fmt::format("routing slot {} does not exist", static_cast<std::int32_t>(slot)));
    }
  }
  return {};
}

}  // namespace

Found check_contingencies(const Graph& graph, const Program& program, const TaskOrder& order) {
  return ContingencyCheck(graph, program, order).run();
}

}  // namespace verify

std::optional<Violation> verify_program(const Graph& graph, const Program& program) {
  using verify::Found;
  if (Found found = verify::check_shape(program.schedule)) return found;
  if (Found found = verify::check_columns(program)) return found;
  const TaskOrder order(program.schedule);
  if (Found found = verify::check_data(graph, program.schedule, order)) return found;
  if (Found found = verify::check_clock(&graph, program.schedule, order)) return found;
  if (Found found = verify::check_arenas(program.schedule, program.layout)) return found;
  if (Found found = verify::check_overlap(&graph, program.schedule, program.layout, order)) return found;
  return verify::check_contingencies(graph, program, order);
}

}  // namespace tidemark
