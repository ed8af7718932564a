#include "integrations/formats/architecture_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;
using Figures = search::ArchitectureFigures;

const search::Architecture& architecture_of(const ArchitectureReport& report, const Figures& figures) {
  return report.request.space.architectures[figures.id];
}

double tokens_per_s(const ArchitectureReport& report, const Figures& figures) {
  const graph_build::JobSpec& job = report.request.plan.job;
  const auto tokens = static_cast<double>(job.parallel.global_batch) * static_cast<double>(job.model.sequence);
  return tokens / (static_cast<double>(figures.step_ns) * 1e-9);
}

/// Of a plan; of an architecture without one only whether memory or time is short is known.
std::string binds(const Figures& figures) {
  return figures.planned ? search::binding_of(*figures.planned) : "-";
}

std::string billions(double count) {
  return fmt::format("{:.2f}", count * 1e-9);
}

void add_row(const ArchitectureReport& report, std::size_t at, TextTable& table) {
  const Figures& f = report.result.fitting[at];
  const search::Architecture& a = architecture_of(report, f);
  table.add({fmt::format("{}", at + 1), fmt::format("{:.3f}", tokens_per_s(report, f) * 1e-6),
             billions(a.parameters.active), billions(a.parameters.total_with_mtp),
             fmt::format("{:.2f}", static_cast<double>(f.step_ns) * 1e-9), f.planned ? "plan" : "passes",
             gib_text(f.spare_bytes), f.planned ? gib_text(f.planned->peak_bytes) : "-", binds(f),
             search::architecture_text(a.model) + "; " + search::layout_text(f.layout)});
}

TextTable new_table() {
  return TextTable(
      {"", "M tokens/s", "active B", "total B", "step s", "by", "spare", "peak", "binds", "architecture; layout"},
      {5, 8, 9});
}

std::string counted_noun(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string counts(const ArchitectureReport& report) {
  const search::ArchitectureSpace& space = report.request.space;
  const search::ArchitectureSearchResult& r = report.result;
  std::string text = fmt::format("{} on {} x {}: {} outside the bounds on parameters, {} looked at",
                                 counted_noun(space.combinations, "architecture"), report.request.devices,
                                 report.request.plan.machine.name, space.outside, space.architectures.size());
  for (const auto& [key, count] : space.refused) text += fmt::format("\n  against a rule: {} {}", key, count);
  for (const auto& [key, count] : r.refused)
    text += fmt::format("\n  layouts against a rule: {} {}",
                        key == "devices" ? "degrees that do not divide the devices" : key, count);
  return text + fmt::format(
                    "\n  {} fit{}, {} do{} not on any layout tried, {} {} slower than the bound on the step\n"
                    "  {} priced, {} passed over by their bound, {} of those priced leave{} no memory\n",
                    r.fitting.size(), r.fitting.size() == 1 ? "s" : "", r.misfit, r.misfit == 1 ? "es" : "",
                    r.over_step, r.over_step == 1 ? "is" : "are", counted_noun(r.looked_at, "layout"), r.bounded_away,
                    r.over_memory, r.over_memory == 1 ? "s" : "");
}

std::string given_line(const ArchitectureReport& report) {
  const search::ArchitectureSearchResult& r = report.result;
  if (!report.request.space.given) return "\nThe job's own model is not in the space\n";
  if (!r.given) return "\nThe job's own model is in the space and fits on no layout tried, or is too slow\n";
  const Figures& own = r.fitting[*r.given];
  const double active = architecture_of(report, own).parameters.active;
  const auto ahead = std::ranges::count_if(r.pareto, [&](std::size_t at) {
    return at < *r.given && architecture_of(report, r.fitting[at]).parameters.active >= active;
  });
  TextTable table = new_table();
  add_row(report, *r.given, table);
  return fmt::format(
             "\nThe job's own model is rank {} of {} by speed; {} of the Pareto set {} faster and at least as large\n",
             *r.given + 1, r.fitting.size(), ahead, ahead == 1 ? "is" : "are") +
         table.text(2);
}

/// Counts are whole, and a double would be printed with a point.
std::int64_t whole_count(double count) {
  return std::llround(count);
}

Json json_of(const ArchitectureReport& report, std::size_t at) {
  const Figures& f = report.result.fitting[at];
  const search::Architecture& a = architecture_of(report, f);
  const graph_build::ParallelSpec& p = f.layout.parallel;
  return {{"rank", at + 1},
          {"architecture", search::architecture_text(a.model)},
          {"layers", a.model.layers.size()},
          {"dense_layers", std::ranges::count(a.model.layers, graph_build::LayerKind::dense)},
          {"dense_width", a.model.dense_width},
          {"hidden", a.model.hidden},
          {"heads", a.model.attention.heads},
          {"experts", a.model.moe.experts},
          {"top_k", a.model.moe.top_k},
          {"expert_width", a.model.moe.width},
          {"shared_width", a.model.moe.shared_width},
          {"mtp_layers", a.model.mtp_layers},
          {"parameters", whole_count(a.parameters.total_with_mtp)},
          {"active_parameters", whole_count(a.parameters.active)},
          {"layout", search::layout_text(f.layout)},
          {"tensor", p.tensor},
          {"pipeline", p.pipeline},
          {"virtual_pipeline", p.virtual_pipeline},
          {"expert", p.expert},
          {"micro_batch", p.micro_batch},
          {"layers_by_stage", f.layout.placement.layers},
          {"step_s", static_cast<double>(f.step_ns) * 1e-9},
          {"priced_by", f.planned ? "plan" : "passes"},
          {"tokens_per_s", tokens_per_s(report, f)},
          {"spare_bytes", f.spare_bytes},
          {"peak_bytes", f.planned ? Json(f.planned->peak_bytes) : Json(nullptr)},
          {"binds", f.planned ? Json(binds(f)) : Json(nullptr)},
          {"layouts_priced", f.looked_at},
          {"layouts_bounded_away", f.bounded_away},
          {"layouts_over_memory", f.over_memory}};
}

}  // namespace

std::string architecture_search_text(const ArchitectureReport& report) {
  const search::ArchitectureSearchResult& r = report.result;
  std::string text = counts(report);
  if (r.fitting.empty()) return "NONE FITS  no architecture fits on any layout tried\n" + text;
  TextTable pareto = new_table();
  for (const std::size_t at : r.pareto) add_row(report, at, pareto);
  text +=
      "\nPareto set: nothing is both faster and larger in active parameters (modelled; step by plan, or by the\n"
      "schedule of passes on even stages; spare: GiB beside static memory and inputs of layers in flight)\n" +
      pareto.text(2);
  TextTable fastest = new_table();
  for (std::size_t at = 0; at < std::min(report.top, r.fitting.size()); ++at) add_row(report, at, fastest);
  return text + "\nFastest\n" + fastest.text(2) + given_line(report);
}

std::string architecture_search_json(const ArchitectureReport& report) {
  const search::ArchitectureSpace& space = report.request.space;
  const search::ArchitectureSearchResult& r = report.result;
  Json json = {{"devices", report.request.devices},
               {"combinations", space.combinations},
               {"outside_bounds", space.outside},
               {"refused", space.refused},
               {"looked_at", space.architectures.size()},
               {"fit", r.fitting.size()},
               {"misfit", r.misfit},
               {"over_step", r.over_step},
               {"layouts_priced", r.looked_at},
               {"layouts_bounded_away", r.bounded_away},
               {"layouts_over_memory", r.over_memory},
               {"layouts_refused", r.refused},
               {"pareto", Json::array()},
               {"fastest", Json::array()},
               {"given", r.given ? json_of(report, *r.given) : Json(nullptr)}};
  for (const std::size_t at : r.pareto) json["pareto"].push_back(json_of(report, at));
  for (std::size_t at = 0; at < std::min(report.top, r.fitting.size()); ++at)
    json["fastest"].push_back(json_of(report, at));
  return json.dump(2) + "\n";
}

}  // namespace tidemark::formats
