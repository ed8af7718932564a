#include "planner/any_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/row_sections.h"
#include "planner/graph_build/load_shape.h"

namespace tidemark::plan {
namespace {

std::string layer_name(const Graph& graph, SiteId id) {
  const Site& site = graph.sites[row(id)];
  return fmt::format("layer {}, micro-batch {}", site.layer, site.micro_batch);
}

/// Empty: it can.
std::string why_not_in_chunks(const RankPlan& plan, const RowSection& section, double load) {
  const Program& program = plan.program;
  const auto cannot = [&](const std::string& why) {
    const OpTemplateId op = program.schedule.tasks[row(section.end)].op_template;
    return fmt::format("{} cannot run in chunks at {}: {}", layer_name(plan.graph, section.site),
                       plan.graph.op_templates[row(op)].name, why);
  };
  if (!section.fault.empty()) return cannot(section.fault);
  const Bytes room = program.schedule.residencies[row(section.room)].bytes;
  if (least_chunks(program, section, load, room) > 0) return {};
  return cannot(fmt::format("a chunk at load {:.4g} needs {} of the {} that are there", load,
                            format_bytes(room_bytes(program, section, load, kMostChunks)), format_bytes(room)));
}

/// Empty: every layer can.
std::string find_whole_layer(const RankPlan& plan, double load) {
  const std::vector<RowSection> sections = row_sections(plan.program);
  std::vector<char> has_end(plan.graph.sites.size(), 0);
  for (const RowSection& section : sections) {
    has_end[row(section.site)] = 1;
    if (std::string why = why_not_in_chunks(plan, section, load); !why.empty()) return why;
  }
  const auto& routed = plan.program.routed;
  const auto bare = std::ranges::find_if(routed, [&](const RoutedResidency& r) { return has_end[row(r.site)] == 0; });
  if (bare == routed.end()) return {};
  return fmt::format("{} cannot run in chunks: no op returns its rows to their tokens",
                     layer_name(plan.graph, bare->site));
}

}  // namespace

AnyLoad any_load(const PlanRequest& request, const RankPlan& plan) {
  if (!plan.figures.fits) return {};
  if (plan.program.routed.empty()) return {.worst_load_f = 1};
  const Result<graph_build::LoadShape> shape = graph_build::load_shape(request.job, request.machine);
  if (!shape) return {.reason = shape.error().message};
  const double worst = shape.value().most_load();
  if (std::string why = find_whole_layer(plan, worst); !why.empty()) return {.reason = std::move(why)};
  return {.worst_load_f = worst};
}

}  // namespace tidemark::plan
