// A whole Program: schedule, layout, the columns beside them, and the sections that may run in chunks.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/verify_parts.h"

namespace tidemark {
namespace verify {
namespace {

bool within(std::int32_t value, std::size_t size) {
  return value >= 0 && static_cast<std::size_t>(value) < size;
}

Found shape(std::string detail) {
  return Violation{.rule = Violation::Rule::schedule_shape, .detail = std::move(detail)};
}

// One row for each message of the graph in this direction, in order.
template <class Event>
Found check_messages(const Graph& graph, const Schedule& schedule, const std::vector<Event>& rows, bool sends) {
  const char* word = sends ? "send" : "receive";
  const Lane lane = sends ? Lane::send : Lane::receive;
  std::size_t next = 0;
  for (const Message& m : graph.messages) {
    if (m.is_send != sends) continue;
    if (next == rows.size()) return shape(fmt::format("the {} with tag {} is not listed", word, m.tag));
    const Event& event = rows[next++];
    const auto task = static_cast<std::int32_t>(event.task);
    if (!within(task, schedule.tasks.size()) || schedule.tasks[row(event.task)].lane != lane) {
      return shape(fmt::format("{} event of task {}, which is not on that lane", word, task));
    }
    const Task& t = schedule.tasks[row(event.task)];
    if (t.kind != TaskKind::op || t.op != m.op || event.peer_rank != m.peer_rank || event.tag != m.tag) {
      return shape(fmt::format("{} event of task {} with rank {} and tag {}; the graph has rank {} and tag {} at op {}",
                               word, task, event.peer_rank, event.tag, m.peer_rank, m.tag, row(m.op)));
    }
  }
  if (next < rows.size()) return shape(fmt::format("{} events of {}, the graph has {}", rows.size(), word, next));
  return {};
}

// Every device residency of a routed storage, with the size rule of its template.
Found check_routed(const Graph& graph, const Program& program) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < program.schedule.residencies.size(); ++i) {
    const Residency& r = program.schedule.residencies[i];
    const auto storage = static_cast<std::int32_t>(r.storage);
    if (r.space != MemorySpace::device || !within(storage, graph.storages.size())) continue;
    const StorageTemplate& t = graph.template_of(r.storage);
    if (t.routed_rows == 0) continue;
    const RoutedResidency wanted{.residency = id_of<ResidencyId>(i),
                                 .site = graph.storages[row(r.storage)].site,
                                 .fixed_bytes = t.fixed_bytes,
                                 .rows = t.routed_rows,
                                 .row_bytes = t.routed_row_bytes,
                                 .rows_of = t.rows_of};
    if (next == program.routed.size() || program.routed[next] != wanted) {
      return shape(fmt::format("residency {} of {} is not listed as routed the way its template says", i,
                               name_of(&graph, r.storage)));
    }
    ++next;
  }
  if (next == program.routed.size()) return {};
  return shape(fmt::format("{} residencies are listed as routed, {} are", program.routed.size(), next));
}

Found check_columns(const Graph& graph, const Program& program) {
  const Schedule& schedule = program.schedule;
  if (!program.estimate_ns.empty() && program.estimate_ns.size() != schedule.tasks.size()) {
    return shape(fmt::format("{} estimates for {} tasks", program.estimate_ns.size(), schedule.tasks.size()));
  }
  if (Found found = check_messages(graph, schedule, program.sends, true)) return found;
  if (Found found = check_messages(graph, schedule, program.receives, false)) return found;
  if (Found found = check_routed(graph, program)) return found;
  for (const ResidencyId slot : program.routing_slots) {
    if (!within(static_cast<std::int32_t>(slot), schedule.residencies.size())) {
      return shape(fmt::format("routing slot {} does not exist", static_cast<std::int32_t>(slot)));
    }
  }
  return {};
}

}  // namespace
}  // namespace verify

std::optional<Violation> verify_program(const Graph& graph, const Program& program) {
  using verify::Found;
  if (Found found = verify::check_shape(program.schedule)) return found;
  if (Found found = verify::check_columns(graph, program)) return found;
  const TaskOrder order(program.schedule);
  if (Found found = verify::check_data(graph, program.schedule, order)) return found;
  if (Found found = verify::check_clock(&graph, program.schedule, order)) return found;
  if (Found found = verify::check_arenas(program.schedule, program.layout)) return found;
  if (Found found = verify::check_overlap(&graph, program.schedule, program.layout, order)) return found;
  return verify::check_sections(graph, program, order);
}

}  // namespace tidemark
