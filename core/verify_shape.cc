// Shape: everything a later check would otherwise have to distrust.

#include <fmt/format.h>

#include "core/verify_parts.h"

namespace tidemark::verify {
namespace {

Found shape(std::string detail) {
  return Violation{.rule = Violation::Rule::schedule_shape, .detail = std::move(detail)};
}

bool within(std::int32_t value, std::size_t size) {
  return value >= 0 && static_cast<std::size_t>(value) < size;
}

// Row pointers of `tasks` into a column of `size` entries must ascend from 0.
template <class Member>
Found check_rows(const Schedule& schedule, Member first, std::size_t size, const char* column) {
  std::int32_t last = 0;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const std::int32_t at = schedule.tasks[t].*first;
    if (at < last || (t == 0 && at != 0) || static_cast<std::size_t>(at) > size) {
      return shape(fmt::format("task {} starts its {} at row {} of {}, after row {}", t, column, at, size, last));
    }
    last = at;
  }
  if (schedule.tasks.empty() && size != 0) return shape(fmt::format("{} {} without a task", size, column));
  return {};
}

Found check_task(const Schedule& schedule, std::size_t t) {
  const Task& task = schedule.tasks[t];
  if (static_cast<std::size_t>(task.lane) >= kLaneCount || task.kind > TaskKind::swap_in) {
    return shape(fmt::format("task {} has lane {} and kind {}, which do not exist", t, static_cast<int>(task.lane),
                             static_cast<int>(task.kind)));
  }
  for (const TaskId wait : schedule.waits_of(id_of<TaskId>(t))) {
    if (!within(static_cast<std::int32_t>(wait), t)) {
      return shape(
          fmt::format("task {} waits for task {}, which is not issued before it", t, static_cast<std::int32_t>(wait)));
    }
  }
  for (const Schedule::Touch& touch : schedule.touches_of(id_of<TaskId>(t))) {
    if (!within(static_cast<std::int32_t>(touch.residency), schedule.residencies.size()) ||
        touch.kind > AccessKind::write) {
      return shape(fmt::format("task {} touches residency {}, which does not exist", t,
                               static_cast<std::int32_t>(touch.residency)));
    }
    const Residency& residency = schedule.residencies[row(touch.residency)];
    const TaskId id = id_of<TaskId>(t);
    if (id < residency.first_task || id > residency.last_task) {
      return Violation{.rule = Violation::Rule::not_resident,
                       .detail = fmt::format("task {} touches residency {} outside its stay from task {} to task {}", t,
                                             static_cast<std::int32_t>(touch.residency),
                                             static_cast<std::int32_t>(residency.first_task),
                                             static_cast<std::int32_t>(residency.last_task))};
    }
  }
  return {};
}

Found check_residency(const Schedule& schedule, std::size_t r) {
  const Residency& residency = schedule.residencies[r];
  const bool untouched = residency.first_task == kNone<TaskId> && residency.last_task == kNone<TaskId>;
  const bool stay = within(static_cast<std::int32_t>(residency.first_task), schedule.tasks.size()) &&
                    within(static_cast<std::int32_t>(residency.last_task), schedule.tasks.size()) &&
                    residency.first_task <= residency.last_task;
  if (!untouched && !stay) {
    return shape(fmt::format("residency {} stays from task {} to task {} of {}", r,
                             static_cast<std::int32_t>(residency.first_task),
                             static_cast<std::int32_t>(residency.last_task), schedule.tasks.size()));
  }
  if (residency.bytes < 0 || residency.space > MemorySpace::host) {
    return shape(fmt::format("residency {} has {} bytes in memory space {}", r, residency.bytes,
                             static_cast<int>(residency.space)));
  }
  return {};
}

}  // namespace

Found check_shape(const Schedule& schedule) {
  if (Found found = check_rows(schedule, &Task::first_wait, schedule.waits.size(), "waits")) return found;
  if (Found found = check_rows(schedule, &Task::first_touch, schedule.touches.size(), "touches")) return found;
  for (std::size_t r = 0; r < schedule.residencies.size(); ++r) {
    if (Found found = check_residency(schedule, r)) return found;
  }
  std::int32_t compute_tasks = 0;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    if (Found found = check_task(schedule, t)) return found;
    compute_tasks += schedule.tasks[t].lane == Lane::compute ? 1 : 0;
  }
  if (compute_tasks != schedule.compute_tasks) {
    return shape(
        fmt::format("the schedule counts {} compute tasks but lists {}", schedule.compute_tasks, compute_tasks));
  }
  return {};
}

}  // namespace tidemark::verify
