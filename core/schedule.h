#pragma once
// A plan turned into tasks on lanes, and the stays of storages in memory. Knows no offsets.
//
// Tasks are listed in issue order. Within a lane that order is the execution order (FIFO); across lanes only `waits`
// order tasks. Every ordering a later stage relies on is a wait listed here: the scheduler adds and prices them all,
// Layout adds none (invariant 3).
//
// The compute clock. For ordering reuse of bytes, every residency carries two positions on the compute lane, in
// half-steps (0 .. 2 * compute_tasks): 2k is "the waits of compute task k are met", 2k+1 is "compute task k has
// completed".
//   acquire = the latest half-step that is ordered before the residency's first touch: 2k for a first touch by
//             compute task k, 2k+1 for a task of another lane that waits for compute task k (0: for none);
//   release = the earliest half-step that is ordered after every touch: 2k+1 if compute task k touches it last, 2k if
//             compute task k waits for the last touch on another lane (the end of the clock: nobody waits).
// If release(a) <= acquire(b), every touch of a is ordered before the first of b, so b may take a's bytes. This one
// interval replaces a release point per lane: it is sufficient, an interval to pack with, and loses only reuse that is
// ordered without passing the compute lane. core/verify checks with full vector clocks and does not use it.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/graph.h"
#include "core/ids.h"

namespace tidemark {

enum class TaskKind : std::uint8_t {
  op,         ///< an op of the Graph
  recompute,  ///< an op template run again at a site, as a step of a recipe
  swap_out,   ///< device to host, lane d2h
  swap_in,    ///< host to device, lane h2d
};

struct Task {
  TaskKind kind = TaskKind::op;
  Lane lane = Lane::compute;
  OpTemplateId op_template = kNone<OpTemplateId>;  ///< op and recompute
  SiteId site = kNone<SiteId>;
  OpId op = kNone<OpId>;                 ///< op: itself; otherwise the op this task is placed before
  StorageId storage = kNone<StorageId>;  ///< swap_out, swap_in
  std::int32_t first_wait = 0;           ///< CSR into Schedule::waits
  std::int32_t first_touch = 0;          ///< CSR into Schedule::touches
  friend bool operator==(const Task&, const Task&) = default;
};

enum class MemorySpace : std::uint8_t { device, host };

struct Residency {
  StorageId storage = kNone<StorageId>;
  MemorySpace space = MemorySpace::device;
  Bytes bytes = 0;
  TaskId first_task = kNone<TaskId>;  ///< first touch
  TaskId last_task = kNone<TaskId>;   ///< last touch in issue order
  std::int32_t acquire = 0;           ///< compute clock in half-steps, half-open [acquire, release)
  std::int32_t release = 0;
  bool full_before = false;  ///< holds content before the step
  bool full_behind = false;  ///< holds what must be there when the step is over
  friend bool operator==(const Residency&, const Residency&) = default;
};

struct Schedule {
  std::int32_t rank = 0;
  std::vector<Task> tasks;
  std::vector<TaskId> waits;  ///< tasks of other lanes that must have completed first
  struct Touch {
    ResidencyId residency = kNone<ResidencyId>;
    AccessKind kind = AccessKind::read;
    friend bool operator==(const Touch&, const Touch&) = default;
  };
  std::vector<Touch> touches;
  std::vector<Residency> residencies;
  std::int32_t compute_tasks = 0;  ///< the compute clock runs from 0 to 2 * compute_tasks

  [[nodiscard]] std::span<const TaskId> waits_of(TaskId task) const;
  [[nodiscard]] std::span<const Touch> touches_of(TaskId task) const;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

}  // namespace tidemark
