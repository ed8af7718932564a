// The obvious version: a table of which task precedes which, filled edge by edge, and every pair of touches of every
// pair of residencies that share a byte.

#include <fmt/format.h>

#include "core/verify_parts.h"

namespace tidemark {
namespace {

using Table = std::vector<std::vector<bool>>;

// precedes[b][a]: a has completed before b starts.
Table precedence(const Schedule& schedule) {
  const std::size_t count = schedule.tasks.size();
  Table precedes(count, std::vector<bool>(count, false));
  for (std::size_t b = 0; b < count; ++b) {
    const auto follow = [&](std::size_t a) {
      precedes[b][a] = true;
      for (std::size_t c = 0; c < a; ++c) {
        if (precedes[a][c]) precedes[b][c] = true;
      }
    };
    for (const TaskId wait : schedule.waits_of(id_of<TaskId>(b))) follow(row(wait));
    for (std::size_t a = 0; a < b; ++a) {
      if (schedule.tasks[a].lane == schedule.tasks[b].lane) follow(a);
    }
  }
  return precedes;
}

std::vector<std::vector<std::size_t>> touching_tasks(const Schedule& schedule) {
  std::vector<std::vector<std::size_t>> tasks(schedule.residencies.size());
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    for (const auto& touch : schedule.touches_of(id_of<TaskId>(t))) tasks[row(touch.residency)].push_back(t);
  }
  for (std::size_t r = 0; r < tasks.size(); ++r) {
    if (schedule.residencies[r].first_task == kNone<TaskId>) continue;
    tasks[r].push_back(row(schedule.residencies[r].first_task));
    tasks[r].push_back(row(schedule.residencies[r].last_task));
  }
  return tasks;
}

bool share_a_byte(const Schedule& schedule, const Layout& layout, std::size_t a, std::size_t b) {
  if (schedule.residencies[a].bytes == 0 || schedule.residencies[b].bytes == 0) return false;
  return layout.arena_of[a] == layout.arena_of[b] &&
         layout.offset_of[a] < layout.offset_of[b] + schedule.residencies[b].bytes &&
         layout.offset_of[b] < layout.offset_of[a] + schedule.residencies[a].bytes;
}

bool all_before(const Table& precedes, const std::vector<std::size_t>& first, const std::vector<std::size_t>& second) {
  for (const std::size_t a : first) {
    for (const std::size_t b : second) {
      if (!precedes[b][a]) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Violation> verify_layout_quadratic(const Schedule& schedule, const Layout& layout) {
  if (verify::Found found = verify::check_shape(schedule)) return found;
  if (verify::Found found = verify::check_arenas(schedule, layout)) return found;
  const Table precedes = precedence(schedule);
  const auto tasks = touching_tasks(schedule);
  for (std::size_t b = 0; b < tasks.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (!share_a_byte(schedule, layout, a, b)) continue;
      if (all_before(precedes, tasks[a], tasks[b]) || all_before(precedes, tasks[b], tasks[a])) continue;
      return Violation{.rule = Violation::Rule::overlap,
                       .detail = fmt::format("residencies {} and {} share bytes and nothing orders them", a, b)};
    }
  }
  return {};
}

}  // namespace tidemark
