#include "swap/storage_versions.h"

#include <utility>

namespace tidemark::swap {
namespace {

/// Ops by number, a recompute in front of the op it is placed before.
std::vector<TaskId> in_order_of_ops(const Schedule& schedule) {
  std::vector<TaskId> order;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t)
    if (schedule.tasks[t].kind == TaskKind::op || schedule.tasks[t].kind == TaskKind::recompute)
      order.push_back(id_of<TaskId>(t));
  const auto place = [&](TaskId task) {
    const Task& t = schedule.tasks[row(task)];
    return std::pair(t.op, t.kind == TaskKind::op);
  };
  std::stable_sort(order.begin(), order.end(), [&](TaskId a, TaskId b) { return place(a) < place(b); });
  return order;
}

std::size_t storage_count(const Schedule& schedule) {
  std::size_t count = 0;
  for (const Residency& r : schedule.residencies) count = std::max(count, row(r.storage) + 1);
  return count;
}

}  // namespace

TouchVersions versions_of(const Schedule& schedule) {
  TouchVersions out{.of_touch = std::vector<std::int32_t>(schedule.touches.size(), 0),
                    .at_end = std::vector<std::int32_t>(storage_count(schedule), 0)};
  for (const TaskId task : in_order_of_ops(schedule)) {
    const bool restores = schedule.tasks[row(task)].kind == TaskKind::recompute;
    const auto touches = schedule.touches_of(task);
    std::int32_t* const here = out.of_touch.data() + schedule.tasks[row(task)].first_touch;
    // Reads come first: a task that changes a storage in place reads the version before.
    for (std::size_t k = 0; k < touches.size(); ++k)
      here[k] = out.at_end[row(schedule.residencies[row(touches[k].residency)].storage)];
    for (std::size_t k = 0; k < touches.size(); ++k) {
      if (touches[k].kind != AccessKind::write) continue;
      here[k] = restores ? std::max(here[k], 1) : here[k] + 1;
      if (!restores) out.at_end[row(schedule.residencies[row(touches[k].residency)].storage)] = here[k];
    }
  }
  return out;
}

}  // namespace tidemark::swap
