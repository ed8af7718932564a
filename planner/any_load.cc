#include "planner/any_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/dynamic_region.h"
#include "core/row_sections.h"
#include "planner/graph_build/load_shape.h"

namespace tidemark::plan {
namespace {

using graph_build::LoadShape;

std::string layer_name(const Graph& graph, SiteId id) {
  const Site& site = graph.sites[row(id)];
  return fmt::format("layer {}, micro-batch {}", site.layer, site.micro_batch);
}

/// Why the section cannot run in chunks; empty: it can.
std::string obstacle(const RankPlan& plan, const LoadShape& shape, std::int32_t parts, const RowSection& section) {
  const Program& program = plan.program;
  std::string why = section.fault;
  if (why.empty()) {
    const Bytes room = program.schedule.residencies[row(section.room)].bytes;
    const SiteLoad worst = shape.worst();
    Bytes needed = 0;
    // Rows that are not there may make the others lie less well.
    for (const SiteLoad& load : {worst, SiteLoad{worst.received, 0}, SiteLoad{0, worst.sent}}) {
      const Bytes bytes = room_bytes(program, section, load, kMostChunks);
      if (bytes > room && least_chunks(program, section, load, room) == 0) needed = std::max(needed, bytes);
    }
    if (needed == 0) return {};
    why = fmt::format("a chunk at load {:.4g} needs {} of the {} that are there", shape.most_load(),
                      format_bytes(needed), format_bytes(room));
    if (parts > 1) why += "; fewer parts of the expert exchange leave more";
  }
  const OpTemplateId op = program.schedule.tasks[row(section.end)].op_template;
  return fmt::format("{} cannot run in chunks at {}: {}", layer_name(plan.graph, section.site),
                     plan.graph.op_templates[row(op)].name, why);
}

/// Of a site whose slots do not hold the worst load.
std::string first_obstacle(const RankPlan& plan, const LoadShape& shape, std::int32_t parts) {
  const std::vector<SiteLoad> planned = planned_loads(plan.program);
  const auto holds = [&](SiteId site) { return slots_hold(planned, site, shape.worst()); };
  std::vector<char> has_end(plan.graph.sites.size(), 0);
  for (const RowSection& section : row_sections(plan.program)) {
    has_end[row(section.site)] = 1;
    if (holds(section.site)) continue;
    if (std::string why = obstacle(plan, shape, parts, section); !why.empty()) return why;
  }
  const auto& routed = plan.program.routed;
  const auto bare = std::ranges::find_if(
      routed, [&](const RoutedResidency& r) { return has_end[row(r.site)] == 0 && !holds(r.site); });
  if (bare == routed.end()) return {};
  return fmt::format("{} cannot run in chunks: no op sums its rows up for their tokens",
                     layer_name(plan.graph, bare->site));
}

}  // namespace

AnyLoad any_load(const PlanRequest& request, const RankPlan& plan) {
  if (!plan.figures.fits) return {};
  if (plan.program.routed.empty()) return {.worst_load_f = 1};
  const Result<LoadShape> shape = graph_build::load_shape(request.job, request.machine);
  if (!shape) return {.reason = shape.error().message};
  std::string why = first_obstacle(plan, shape.value(), request.job.parallel.expert_exchange_parts);
  if (!why.empty()) return {.reason = std::move(why)};
  return {.worst_load_f = shape.value().most_load()};
}

}  // namespace tidemark::plan
