#include <fmt/format.h>

#include "core/verify_parts.h"

namespace tidemark::verify {
namespace {

template <class Id, class Rows>
bool in_range(Id id, const Rows& rows) {
  return static_cast<std::int32_t>(id) >= 0 && row(id) < rows.size();
}

std::string place_of(const Graph& graph, SiteId id) {
  if (!in_range(id, graph.sites)) return {};
  const Site& site = graph.sites[row(id)];
  std::string text = fmt::format("chunk {}", site.chunk);
  if (site.layer >= 0) text += fmt::format(", layer {}", site.layer);
  if (site.micro_batch >= 0) text += fmt::format(", micro-batch {}", site.micro_batch);
  return text;
}

std::string work_of(const Graph& graph, const Task& task) {
  switch (task.kind) {
    case TaskKind::swap_out:
      return "copy out of " + name_of(&graph, task.storage);
    case TaskKind::swap_in:
      return "copy in of " + name_of(&graph, task.storage);
    case TaskKind::op:
    case TaskKind::recompute:
      break;
  }
  if (!in_range(task.op_template, graph.op_templates)) return "unknown op";
  const std::string& name = graph.op_templates[row(task.op_template)].name;
  const std::string place = place_of(graph, task.site);
  return (task.kind == TaskKind::recompute ? "recompute " : "") + name + (place.empty() ? "" : ", " + place);
}

}  // namespace

std::string name_of(const Graph* graph, StorageId storage) {
  if (graph == nullptr || !in_range(storage, graph->storages)) {
    return fmt::format("storage {}", static_cast<std::int32_t>(storage));
  }
  const StorageTemplate& shape = graph->template_of(storage);
  const std::string path = shape.module_path.empty() ? shape.name : shape.module_path + "." + shape.name;
  const std::string place = place_of(*graph, graph->storages[row(storage)].site);
  return "storage " + path + (place.empty() ? "" : " (" + place + ")");
}

std::string name_of(const Graph* graph, const Schedule& schedule, TaskId task) {
  const auto number = static_cast<std::int32_t>(task);
  if (graph == nullptr || !in_range(task, schedule.tasks)) return fmt::format("task {}", number);
  return fmt::format("task {} ({})", number, work_of(*graph, schedule.tasks[row(task)]));
}

}  // namespace tidemark::verify
