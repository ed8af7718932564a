#include "core/schedule.h"

namespace tidemark {

std::span<const TaskId> Schedule::waits_of(TaskId task) const {
  const std::size_t index = row(task);
  const auto begin = static_cast<std::size_t>(tasks[index].first_wait);
  const std::size_t end =
      index + 1 < tasks.size() ? static_cast<std::size_t>(tasks[index + 1].first_wait) : waits.size();
  return {waits.data() + begin, end - begin};
}

std::span<const Schedule::Touch> Schedule::touches_of(TaskId task) const {
  const std::size_t index = row(task);
  const auto begin = static_cast<std::size_t>(tasks[index].first_touch);
  const std::size_t end =
      index + 1 < tasks.size() ? static_cast<std::size_t>(tasks[index + 1].first_touch) : touches.size();
  return {touches.data() + begin, end - begin};
}

}  // namespace tidemark
