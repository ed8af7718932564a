#include "planner/any_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/row_sections.h"
#include "planner/graph_build/load_shape.h"

namespace tidemark::plan {
namespace {

std::string layer_name(const Graph& graph, SiteId id) {
  const Site& site = graph.sites[row(id)];
  return fmt::format("layer {}, micro-batch {}", site.layer, site.micro_batch);
}

/// Why sections cannot run in chunks.
struct Obstacle {
  std::string why;           ///< of the first; empty: all can
  double least_load_f = 0;   ///< AnyLoad::least_load_f
  bool has_no_load = false;  ///< whatever the plan's load is
};

/// From which planned load on the slot of the room holds so much; nothing: from none.
std::optional<double> load_for(const Program& program, const RowSection& section, Bytes bytes) {
  const auto routed = std::ranges::find(program.routed, section.room, &RoutedResidency::residency);
  if (routed == program.routed.end() || routed->rows <= 0 || routed->row_bytes <= 0) return std::nullopt;
  const std::int64_t rows = (bytes - routed->fixed_bytes + routed->row_bytes - 1) / routed->row_bytes;
  return static_cast<double>(rows) / static_cast<double>(routed->rows);
}

void check_section(const RankPlan& plan, const RowSection& section, double load, Obstacle& found) {
  const Program& program = plan.program;
  std::string why = section.fault;
  if (why.empty()) {
    const Bytes room = program.schedule.residencies[row(section.room)].bytes;
    if (least_chunks(program, section, load, room) > 0) return;
    const Bytes needed = room_bytes(program, section, load, kMostChunks);
    const std::optional<double> enough = load_for(program, section, needed);
    found.least_load_f = std::max(found.least_load_f, enough.value_or(0));
    found.has_no_load = found.has_no_load || !enough;
    why = fmt::format("a chunk at load {:.4g} needs {} of the {} that are there", load, format_bytes(needed),
                      format_bytes(room));
  } else {
    found.has_no_load = true;
  }
  if (!found.why.empty()) return;
  const OpTemplateId op = program.schedule.tasks[row(section.end)].op_template;
  found.why = fmt::format("{} cannot run in chunks at {}: {}", layer_name(plan.graph, section.site),
                          plan.graph.op_templates[row(op)].name, why);
}

Obstacle find_obstacle(const RankPlan& plan, double load) {
  Obstacle found;
  const std::vector<RowSection> sections = row_sections(plan.program);
  std::vector<char> has_end(plan.graph.sites.size(), 0);
  for (const RowSection& section : sections) {
    has_end[row(section.site)] = 1;
    check_section(plan, section, load, found);
  }
  const auto& routed = plan.program.routed;
  const auto bare = std::ranges::find_if(routed, [&](const RoutedResidency& r) { return has_end[row(r.site)] == 0; });
  if (bare == routed.end()) return found;
  return {.why = fmt::format("{} cannot run in chunks: no op returns its rows to their tokens",
                             layer_name(plan.graph, bare->site)),
          .has_no_load = true};
}

/// So that a plan for the load as it is printed has the rows.
double round_up_load(double load) {
  constexpr double kDigits = 1e4;
  return std::ceil(load * kDigits) / kDigits;
}

}  // namespace

AnyLoad any_load(const PlanRequest& request, const RankPlan& plan) {
  if (!plan.figures.fits) return {};
  if (plan.program.routed.empty()) return {.worst_load_f = 1};
  const Result<graph_build::LoadShape> shape = graph_build::load_shape(request.job, request.machine);
  if (!shape) return {.reason = shape.error().message};
  const double worst = shape.value().most_load();
  Obstacle found = find_obstacle(plan, worst);
  if (found.why.empty()) return {.worst_load_f = worst};
  if (found.has_no_load) return {.reason = std::move(found.why)};
  const double least = round_up_load(found.least_load_f);
  return {.least_load_f = least, .reason = fmt::format("{}; planned for --imbalance {} it can", found.why, least)};
}

}  // namespace tidemark::plan
