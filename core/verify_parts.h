#pragma once
// The parts of the checker, for core/verify_*.cc, and check_shape for readers of schedules that others wrote.

#include <optional>
#include <string>

#include "core/graph.h"
#include "core/layout.h"
#include "core/program.h"
#include "core/schedule.h"
#include "core/task_order.h"
#include "core/verify.h"

namespace tidemark::verify {

using Found = std::optional<Violation>;

/// Columns of one length, ids in range, waits on earlier tasks, touches within the stay of their residency. What holds
/// after this makes every other check safe to run on a schedule read from a file.
[[nodiscard]] Found check_shape(const Schedule& schedule);

/// Arena and offset of every residency: in range, aligned, within capacity, of the right space.
[[nodiscard]] Found check_arenas(const Schedule& schedule, const Layout& layout);

/// Ops exactly once and in order, data ordered, resident and restored. REQUIRES: check_shape found nothing.
[[nodiscard]] Found check_data(const Graph& graph, const Schedule& schedule, const TaskOrder& order);

/// Reused bytes are ordered. REQUIRES: check_shape and check_arenas found nothing. `graph` is for names and may be
/// null.
[[nodiscard]] Found check_overlap(const Graph* graph, const Schedule& schedule, const Layout& layout,
                                  const TaskOrder& order);

/// Acquire and release of every residency hold in every order the lanes may run in. REQUIRES: check_shape found
/// nothing.
[[nodiscard]] Found check_clock(const Graph* graph, const Schedule& schedule, const TaskOrder& order);

/// Ends of sections as the graph has them; every section that can run in chunks means the same when it
/// does. REQUIRES: everything above found nothing.
[[nodiscard]] Found check_sections(const Graph& graph, const Program& program, const TaskOrder& order);

/// `storage mlp.experts.fc1_in (chunk 0, layer 5, micro-batch 3)`; by number where there is no graph.
[[nodiscard]] std::string name_of(const Graph* graph, StorageId storage);
/// `task 17 (recompute attention.key, chunk 0, layer 5, micro-batch 3)`.
[[nodiscard]] std::string name_of(const Graph* graph, const Schedule& schedule, TaskId task);

}  // namespace tidemark::verify
