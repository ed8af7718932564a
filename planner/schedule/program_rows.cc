#include "planner/schedule/program_rows.h"

#include <vector>

namespace tidemark::schedule {
namespace {

void list_messages(const Graph& graph, Program& program) {
  if (graph.messages.empty()) return;
  std::vector<TaskId> task_of(graph.ops.size(), kNone<TaskId>);
  for (std::size_t t = 0; t < program.schedule.tasks.size(); ++t) {
    const Task& task = program.schedule.tasks[t];
    if (task.kind == TaskKind::op) task_of[row(task.op)] = id_of<TaskId>(t);
  }
  // Messages are in op order and share a lane, so tasks ascend.
  for (const Message& m : graph.messages) {
    const TaskId task = task_of[row(m.op)];
    if (m.is_send) {
      program.sends.push_back({.task = task, .peer_rank = m.peer_rank, .tag = m.tag});
    } else {
      program.receives.push_back({.task = task, .peer_rank = m.peer_rank, .tag = m.tag});
    }
  }
}

void list_routed(const Graph& graph, Program& program) {
  for (std::size_t i = 0; i < program.schedule.residencies.size(); ++i) {
    const Residency& r = program.schedule.residencies[i];
    if (r.space != MemorySpace::device) continue;
    const StorageTemplate& t = graph.template_of(r.storage);
    if (t.routed_rows == 0) continue;
    program.routed.push_back({.residency = id_of<ResidencyId>(i),
                              .site = graph.storages[row(r.storage)].site,
                              .fixed_bytes = t.fixed_bytes,
                              .rows = t.routed_rows,
                              .row_bytes = t.routed_row_bytes,
                              .rows_of = t.rows_of});
  }
}

void list_routing_slots(const Graph& graph, Program& program) {
  std::vector<char> replayed(graph.storage_templates.size(), 0);
  for (const Block& block : graph.blocks)
    for (std::int32_t r = 0; r < block.recipe_count; ++r) {
      const Recipe& recipe = graph.recipes[row(block.first_recipe) + static_cast<std::size_t>(r)];
      if (!recipe.replays_routing) continue;
      for (const std::int32_t local : recipe.sources) {
        const std::size_t t = row(block.first_storage_template) + static_cast<std::size_t>(local);
        if (graph.storage_templates[t].name == "router") replayed[t] = 1;
      }
    }
  for (std::size_t i = 0; i < program.schedule.residencies.size(); ++i) {
    const Residency& r = program.schedule.residencies[i];
    if (r.space == MemorySpace::device && replayed[row(graph.storages[row(r.storage)].storage_template)] != 0)
      program.routing_slots.push_back(id_of<ResidencyId>(i));
  }
}

void list_section_ends(const Graph& graph, Program& program) {
  for (std::size_t t = 0; t < program.schedule.tasks.size(); ++t) {
    const Task& task = program.schedule.tasks[t];
    const bool runs_op = task.kind == TaskKind::op || task.kind == TaskKind::recompute;
    if (runs_op && graph.op_templates[row(task.op_template)].ends_rows)
      program.section_ends.push_back(id_of<TaskId>(t));
  }
}

}  // namespace

void add_program_rows(const Graph& graph, Program& program) {
  list_messages(graph, program);
  list_routed(graph, program);
  list_routing_slots(graph, program);
  list_section_ends(graph, program);
}

}  // namespace tidemark::schedule
