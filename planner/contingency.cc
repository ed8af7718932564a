#include "planner/contingency.h"

#include <algorithm>
#include <vector>

namespace tidemark {
namespace {

/// Most bytes of routed storages alive at once, at load 1.
Bytes routed_peak(const Graph& graph, const Schedule& schedule) {
  std::vector<Bytes> delta(static_cast<std::size_t>(schedule.compute_tasks) * 2 + 2, 0);
  for (const Residency& r : schedule.residencies) {
    const StorageTemplate& t = graph.template_of(r.storage);
    if (r.space != MemorySpace::device || t.routed_rows == 0) continue;
    const Bytes bytes = t.routed_rows * t.routed_row_bytes;
    delta[static_cast<std::size_t>(r.acquire)] += bytes;
    delta[static_cast<std::size_t>(r.release)] -= bytes;
  }
  Bytes live = 0, top = 0;
  for (const Bytes d : delta) {
    live += d;
    top = std::max(top, live);
  }
  return top;
}

}  // namespace

void add_contingencies(const Graph& graph, double load, Bytes /*host_budget*/, Program& program) {
  const Bytes routed = routed_peak(graph, program.schedule);
  const Bytes dynamic = program.layout.arenas.front().dynamic_bytes;
  program.contingency_limit_f = load;
  if (routed > 0)
    program.contingency_limit_f = std::max(load, static_cast<double>(dynamic) / static_cast<double>(routed));

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

}  // namespace tidemark
