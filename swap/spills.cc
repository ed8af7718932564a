#include "swap/spills.h"

#include <algorithm>

namespace tidemark::swap {
namespace {

/// Copies of the plan and of other spills are on the same links.
constexpr std::int64_t kTimesOver = 3;

/// Nanoseconds a byte of the slowest planned copy; 0: there is none.
double slowest_copy(const Program& program) {
  const Schedule& schedule = program.schedule;
  double slowest = 0;
  for (std::size_t t = 0; t < schedule.tasks.size() && !program.estimate_ns.empty(); ++t) {
    const TaskKind kind = schedule.tasks[t].kind;
    if (kind != TaskKind::swap_out && kind != TaskKind::swap_in) continue;
    const Bytes bytes = schedule.residencies[row(schedule.touches_of(id_of<TaskId>(t)).front().residency)].bytes;
    if (bytes > 0)
      slowest = std::max(slowest, static_cast<double>(program.estimate_ns[t]) / static_cast<double>(bytes));
  }
  return slowest;
}

/// The compute lane: its tasks, and when each begins if none waits.
struct ComputeLane {
  explicit ComputeLane(const Program& program) {
    std::int64_t now = 0;
    for (std::size_t t = 0; t < program.schedule.tasks.size(); ++t) {
      if (program.schedule.tasks[t].lane != Lane::compute) continue;
      tasks.push_back(id_of<TaskId>(t));
      begins_ns.push_back(now);
      now += program.estimate_ns[t];
    }
  }
  [[nodiscard]] std::size_t position(TaskId task) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(tasks, task) - tasks.begin());
  }
  std::vector<TaskId> tasks;
  std::vector<std::int64_t> begins_ns;
};

/// Between the compute task `last` and the begin of a section, at the compute task `next` or before it.
std::optional<Spill> spill_in(const ComputeLane& lane, std::size_t last, std::size_t next, std::int64_t copy_ns) {
  if (next <= last + 1) return std::nullopt;
  const auto begins = lane.begins_ns.begin();
  const auto at = [&](std::size_t position) { return begins + static_cast<std::ptrdiff_t>(position); };
  const auto release = std::lower_bound(at(last + 1), at(next), *at(last + 1) + copy_ns);
  const auto back = std::upper_bound(at(last + 1), at(next), *at(next) - copy_ns);
  if (back - release < 2) return std::nullopt;
  return Spill{.trigger = lane.tasks[last],
               .release_at = lane.tasks[static_cast<std::size_t>(release - begins)],
               .return_at = lane.tasks[static_cast<std::size_t>(back - begins) - 1]};
}

}  // namespace

std::vector<std::optional<Spill>> spills_of(const BoundProgram& bound, const std::vector<RowSection>& sections) {
  const Program& program = *bound.program;
  const Schedule& schedule = program.schedule;
  std::vector<std::optional<Spill>> spills(program.routed.size());
  const double ns_per_byte = slowest_copy(program);
  if (ns_per_byte <= 0) return spills;
  const ComputeLane lane(program);
  std::vector<TaskId> begin(schedule.tasks.size(), kNone<TaskId>);
  for (const RowSection& section : sections)
    for (const TaskId task : section.tasks) begin[row(task)] = section.begin;
  struct Gap {
    TaskId last = kNone<TaskId>;  ///< touch so far
    TaskId from = kNone<TaskId>, to = kNone<TaskId>;
    std::int32_t length = 0;
    bool fixed = false;  ///< may not leave
  };
  std::vector<Gap> gaps(program.routed.size());
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const auto task = id_of<TaskId>(t);
    for (const Schedule::Touch& touch : schedule.touches_of(task)) {
      const std::int32_t routed = bound.routed[row(touch.residency)];
      if (routed < 0) continue;
      Gap& gap = gaps[static_cast<std::size_t>(routed)];
      gap.fixed = gap.fixed || schedule.tasks[t].lane != Lane::compute;
      if (gap.last != kNone<TaskId> && gap.last != task) {
        const std::int32_t length = bound.clock[t] - bound.clock[row(gap.last)];
        if (length > gap.length) gap = {.from = gap.last, .to = task, .length = length, .fixed = gap.fixed};
      }
      gap.last = task;
    }
  }
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (gaps[i].fixed || gaps[i].length < 2) continue;
    const Bytes bytes = schedule.residencies[row(program.routed[i].residency)].bytes;
    const auto copy_ns = static_cast<std::int64_t>(ns_per_byte * static_cast<double>(bytes)) * kTimesOver;
    const TaskId needed = gaps[i].to;
    const TaskId by = begin[row(needed)] == kNone<TaskId> ? needed : begin[row(needed)];
    spills[i] = spill_in(lane, lane.position(gaps[i].from), lane.position(by), copy_ns);
    if (spills[i]) spills[i]->needed_at = needed;
  }
  return spills;
}

}  // namespace tidemark::swap
