#pragma once
// Small literal schedules for tests: a builder that keeps the columns of a Schedule consistent, and the plainest
// schedule of a graph, everything kept and every conflict waited for.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/graph.h"
#include "core/layout.h"
#include "core/schedule.h"
#include "core/task_order.h"

namespace tidemark::testing {

/// Every residency as short on the compute clock as the task order allows (core/schedule.h). Obvious and slow.
inline void set_clock(Schedule& schedule) {
  const TaskOrder order(schedule);
  std::vector<TaskId> compute;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t)
    if (schedule.tasks[t].lane == Lane::compute) compute.push_back(id_of<TaskId>(t));
  std::vector<bool> touched(schedule.residencies.size(), false);
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const auto task = id_of<TaskId>(t);
    std::int32_t acquire = 0, release = static_cast<std::int32_t>(2 * compute.size());
    for (std::size_t k = 0; k < compute.size(); ++k) {
      const auto half_step = static_cast<std::int32_t>(2 * k);
      if (compute[k] == task) acquire = half_step;
      if (order.before(compute[k], task)) acquire = half_step + 1;
      if (order.before(task, compute[k])) release = std::min(release, half_step);
      if (compute[k] == task) release = std::min(release, half_step + 1);
    }
    for (const Schedule::Touch& touch : schedule.touches_of(task)) {
      Residency& r = schedule.residencies[row(touch.residency)];
      const bool first = !touched[row(touch.residency)];
      r.acquire = first ? acquire : std::min(r.acquire, acquire);
      r.release = first ? release : std::max(r.release, release);
      touched[row(touch.residency)] = true;
    }
  }
}

class ScheduleBuilder {
 public:
  using Touch = Schedule::Touch;

  ResidencyId stay(StorageId storage, Bytes bytes, MemorySpace space = MemorySpace::device) {
    s_.residencies.push_back({.storage = storage, .space = space, .bytes = bytes});
    return id_of<ResidencyId>(s_.residencies.size() - 1);
  }

  /// Stays in memory from the first task to the last, touched or not, and is full before and behind the step.
  ResidencyId stay_all_step(StorageId storage, Bytes bytes, MemorySpace space = MemorySpace::device) {
    const ResidencyId id = stay(storage, bytes, space);
    all_step_.push_back(id);
    return id;
  }

  TaskId task(Task task, const std::vector<TaskId>& waits, const std::vector<Touch>& touches) {
    const TaskId id = id_of<TaskId>(s_.tasks.size());
    task.first_wait = static_cast<std::int32_t>(s_.waits.size());
    task.first_touch = static_cast<std::int32_t>(s_.touches.size());
    s_.tasks.push_back(task);
    s_.waits.insert(s_.waits.end(), waits.begin(), waits.end());
    for (const Touch& touch : touches) {
      s_.touches.push_back(touch);
      Residency& r = s_.residencies[row(touch.residency)];
      if (r.first_task == kNone<TaskId>) r.first_task = id;
      r.last_task = id;
    }
    if (task.lane == Lane::compute) ++s_.compute_tasks;
    return id;
  }

  /// A task of no particular op: for tests of addresses.
  TaskId touch(Lane lane, const std::vector<TaskId>& waits, const std::vector<ResidencyId>& residencies) {
    std::vector<Touch> touches;
    for (const ResidencyId r : residencies) touches.push_back({r, AccessKind::write});
    return task({.lane = lane}, waits, touches);
  }

  TaskId op(const Graph& graph, OpId op, const std::vector<TaskId>& waits, const std::vector<Touch>& touches) {
    const Op& o = graph.ops[row(op)];
    return task({.lane = graph.template_of(op).lane, .op_template = o.op_template, .site = o.site, .op = op}, waits,
                touches);
  }

  TaskId recompute(const Graph& graph, OpTemplateId op, SiteId site, const std::vector<TaskId>& waits,
                   const std::vector<Touch>& touches) {
    return task(
        {.kind = TaskKind::recompute, .lane = graph.op_templates[row(op)].lane, .op_template = op, .site = site}, waits,
        touches);
  }

  TaskId copy_out(StorageId storage, const std::vector<TaskId>& waits, ResidencyId from, ResidencyId to) {
    return task({.kind = TaskKind::swap_out, .lane = Lane::d2h, .storage = storage}, waits,
                {{from, AccessKind::read}, {to, AccessKind::write}});
  }

  TaskId copy_in(StorageId storage, const std::vector<TaskId>& waits, ResidencyId from, ResidencyId to) {
    return task({.kind = TaskKind::swap_in, .lane = Lane::h2d, .storage = storage}, waits,
                {{from, AccessKind::read}, {to, AccessKind::write}});
  }

  [[nodiscard]] Schedule finish() && {
    for (const ResidencyId r : all_step_) {
      s_.residencies[row(r)].first_task = id_of<TaskId>(0);
      s_.residencies[row(r)].last_task = id_of<TaskId>(s_.tasks.size() - 1);
      s_.residencies[row(r)].full_before = s_.residencies[row(r)].full_behind = true;
    }
    set_clock(s_);
    for (const ResidencyId r : all_step_) {
      s_.residencies[row(r)].acquire = 0;
      s_.residencies[row(r)].release = 2 * s_.compute_tasks;
    }
    return std::move(s_);
  }

 private:
  Schedule s_;
  std::vector<ResidencyId> all_step_;
};

/// Everything kept: one residency per storage (row = storage), ops in program order, every earlier task that uses a
/// storage waited for by whoever writes it and every earlier writer by whoever uses it.
[[nodiscard]] inline Schedule keep_all_schedule(const Graph& graph) {
  ScheduleBuilder b;
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    const bool fixed = graph.template_of(id_of<StorageId>(s)).persists();
    (fixed ? b.stay_all_step(id_of<StorageId>(s), graph.storages[s].bytes)
           : b.stay(id_of<StorageId>(s), graph.storages[s].bytes));
  }
  std::vector<std::vector<std::pair<TaskId, AccessKind>>> uses(graph.storages.size());
  for (std::size_t o = 0; o < graph.ops.size(); ++o) {
    std::vector<TaskId> waits;
    std::vector<Schedule::Touch> touches;
    for (const Access& access : graph.accesses_of(id_of<OpId>(o))) {
      for (const auto& [task, kind] : uses[row(access.storage)]) {
        if (kind == AccessKind::write || access.kind == AccessKind::write) waits.push_back(task);
      }
      touches.push_back({static_cast<ResidencyId>(access.storage), access.kind});
    }
    std::ranges::sort(waits);
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    const TaskId task = b.op(graph, id_of<OpId>(o), waits, touches);
    for (const Access& access : graph.accesses_of(id_of<OpId>(o)))
      uses[row(access.storage)].emplace_back(task, access.kind);
  }
  Schedule schedule = std::move(b).finish();
  schedule.rank = graph.rank;
  return schedule;
}

/// One device arena and one host arena, residencies side by side: nothing is reused.
[[nodiscard]] inline Layout side_by_side(const Schedule& schedule, Bytes alignment = 1) {
  Layout layout;
  layout.arenas = {{.space = MemorySpace::device, .alignment_bytes = alignment},
                   {.space = MemorySpace::host, .kind = Arena::Kind::pinned, .alignment_bytes = alignment}};
  for (const Residency& r : schedule.residencies) {
    Arena& arena = layout.arenas[r.space == MemorySpace::device ? 0 : 1];
    layout.arena_of.push_back(id_of<ArenaId>(r.space == MemorySpace::device ? 0 : 1));
    layout.offset_of.push_back(arena.height_bytes);
    arena.height_bytes += round_up(r.bytes, alignment);
    arena.capacity_bytes = arena.height_bytes;
  }
  return layout;
}

}  // namespace tidemark::testing
