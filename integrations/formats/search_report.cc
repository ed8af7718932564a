#include "integrations/formats/search_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"
#include "planner/search/layout_terms.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;
using Parts = std::array<std::pair<const char*, std::int64_t>, 5>;

Parts parts_of(const search::LayoutFigures& f) {
  return {{{"compute", f.compute_ns},
           {"bubble", f.bubble_ns},
           {"communication", f.communication_ns},
           {"imbalance", f.imbalance_ns},
           {"memory", f.memory_ns}}};
}

/// One unit for all times of a report.
struct Unit {
  const char* name;
  double ns;
};

Unit unit_for(std::int64_t step_ns) {
  return step_ns >= 1'000'000'000 ? Unit{.name = "s", .ns = 1e9} : Unit{.name = "ms", .ns = 1e6};
}

Unit unit_of(const SearchReport& report) {
  if (!report.result.best.empty()) return unit_for(report.result.best.front().figures.step_ns);
  return unit_for(report.result.given ? report.result.given->figures.step_ns : 0);
}

std::string text_of(std::int64_t ns, const Unit& unit) {
  return fmt::format("{:.2f}", static_cast<double>(ns) / unit.ns);
}

double tokens_per_s(const SearchReport& report, const search::LayoutFigures& f) {
  const auto tokens = static_cast<double>(report.request.job.parallel.global_batch) *
                      static_cast<double>(report.request.job.model.sequence);
  return f.step_ns > 0 ? tokens / (static_cast<double>(f.step_ns) * 1e-9) : 0;
}

std::string counts(const SearchReport& report) {
  const search::LayoutSearchResult& r = report.result;
  std::string text =
      fmt::format("{} layouts of {} on {} x {}: {} legal", report.space.tried, report.request.job.model.name,
                  report.devices, report.request.machine.name, report.space.layouts.size());
  if (!report.space.refused.empty()) text += "\n  against a rule:";
  for (const auto& [key, count] : report.space.refused) text += fmt::format(" {} {};", key, count);
  if (text.back() == ';') text.pop_back();
  return text + fmt::format(
                    "\n  {} without room for static memory, {} with a bound above what was found, {} planned, of "
                    "which {} do not fit\n  {} of these have a placement found for their degrees\n",
                    r.over_static, r.bounded_away, r.planned, r.misfit, r.placed);
}

std::string verdict(const SearchReport& report) {
  const search::LayoutSearchResult& r = report.result;
  if (r.best.empty()) return "NONE FITS  no layout that was planned fits\n";
  if (r.proven())
    return fmt::format(
        "PROVEN  no layout is faster than the {} below, under this model, with empty slots at the tail, back or "
        "front\n",
        r.best.size());
  return fmt::format(
      "BEST FOUND  {} layouts were not planned whose bound is below the last one shown; --most-planned "
      "looks further\n",
      r.below);
}

std::string table_of(const SearchReport& report) {
  const Unit unit = unit_of(report);
  TextTable table({"", "step", "compute", "bubble", "comm", "imbalance", "memory", "bound", "peak", "M tokens/s",
                   "binds", "layout"},
                  {10, 11});
  for (std::size_t i = 0; i < report.result.best.size(); ++i) {
    const search::RankedLayout& ranked = report.result.best[i];
    const search::LayoutFigures& f = ranked.figures;
    const auto seconds = [&](std::int64_t ns) { return text_of(ns, unit); };
    table.add({fmt::format("{}", i + 1), seconds(f.step_ns), seconds(f.compute_ns), seconds(f.bubble_ns),
               seconds(f.communication_ns), seconds(f.imbalance_ns), seconds(f.memory_ns), seconds(ranked.bound_ns),
               gib_text(f.peak_bytes), fmt::format("{:.2f}", tokens_per_s(report, f) * 1e-6), search::binding_of(f),
               search::layout_text(ranked.layout)});
  }
  return fmt::format("\nFastest ({} per step, modelled, means over ranks; peak in GiB)\n", unit.name) + table.text();
}

/// Terms of step time that a layout has and no measured run on chips of its kind had. What plans recompute and copy is
/// chosen tensor by tensor, which no framework that was measured does.
TimeTerms unmeasured_in(const SearchReport& report, const search::RankedLayout& ranked) {
  TimeTerms terms = search::terms_of(search::with_layout(report.request.job, ranked.layout));
  terms.add_if(ranked.figures.memory_ns > 0, TimeTerm::operators_recomputed);
  terms.add_if(ranked.figures.memory_ns > 0, TimeTerm::activations_on_host);
  return terms.without(report.request.machine.chip.measured);
}

/// One line for each set of terms, with the layouts that rest on it.
std::string unmeasured_lines(const SearchReport& report) {
  std::map<std::string, std::string> layouts;
  for (std::size_t i = 0; i < report.result.best.size(); ++i) {
    const TimeTerms terms = unmeasured_in(report, report.result.best[i]);
    if (terms.empty()) continue;
    std::string& list = layouts[terms.text()];
    list += fmt::format("{}{}", list.empty() ? "" : ", ", i + 1);
  }
  std::string text;
  for (const auto& [terms, list] : layouts)
    text += fmt::format("  no measured run on chips of this kind had what {} rest{} on: {}\n", list,
                        list.find(',') == std::string::npos ? "s" : "", terms);
  return text;
}

/// How one layout's degrees differ from another's: `PP16 -> PP8`.
std::string changes(const search::SearchLayout& from, const search::SearchLayout& to) {
  const graph_build::ParallelSpec &a = from.parallel, &b = to.parallel;
  std::string text;
  const auto degree = [&](std::string_view name, std::int64_t was, std::int64_t is) {
    if (was != is) text += fmt::format("{}{}{} for {}", text.empty() ? "" : ", ", name, is, was);
  };
  const auto flag = [&](std::string_view name, bool was, bool is) {
    if (was != is) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", is ? "with" : "without", name);
  };
  degree("TP", a.tensor, b.tensor);
  degree("CP", a.context, b.context);
  degree("PP", a.pipeline, b.pipeline);
  degree("VPP", a.virtual_pipeline, b.virtual_pipeline);
  degree("EP", a.expert, b.expert);
  degree("MBS", a.micro_batch, b.micro_batch);
  flag("TP-extend-EP", a.tensor_extends_expert, b.tensor_extends_expert);
  flag("hierarchical exchange", a.hierarchical_expert_communication, b.hierarchical_expert_communication);
  flag("overlap", a.overlap_forward_backward, b.overlap_forward_backward);
  return text.empty() ? "another placement of layers" : text;
}

std::string given_lines(const SearchReport& report) {
  const search::LayoutSearchResult& r = report.result;
  if (!r.given) return "";
  const Unit unit = unit_of(report);
  const auto seconds = [&](std::int64_t ns) { return text_of(ns, unit) + " " + unit.name; };
  const search::LayoutFigures& f = r.given->figures;
  std::string text = fmt::format("\nThe job's own layout, {}\n", search::layout_text(r.given->layout));
  if (!f.fits) return text + "  does not fit: " + f.reason + "\n";
  text +=
      fmt::format("  rank {} of {} planned that fit: {} per step ({}), bound {}, {:.2f} M tokens/s, binds: {}\n",
                  r.given_rank, r.planned - r.misfit, seconds(f.step_ns), difference_text(f, search::LayoutFigures{}),
                  seconds(r.given->bound_ns), tokens_per_s(report, f) * 1e-6, search::binding_of(f));
  if (r.faster_than_given > 0)
    text += fmt::format("  {} more layouts were not planned whose bound is below its step\n", r.faster_than_given);
  for (std::size_t i = 0; i < r.best.size() && r.best[i].figures.step_ns < f.step_ns; ++i)
    text += fmt::format("  {} beats it by {}: {}\n     {}\n", i + 1, seconds(f.step_ns - r.best[i].figures.step_ns),
                        changes(r.given->layout, r.best[i].layout), difference_text(r.best[i].figures, f));
  return text;
}

Json layout_json(const SearchReport& report, const search::RankedLayout& ranked) {
  const graph_build::ParallelSpec& p = ranked.layout.parallel;
  const search::LayoutFigures& f = ranked.figures;
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
  Json json = {{"layout", search::layout_text(ranked.layout)},
               {"tensor", p.tensor},
               {"context", p.context},
               {"pipeline", p.pipeline},
               {"virtual_pipeline", p.virtual_pipeline},
               {"expert", p.expert},
               {"tensor_extends_expert", p.tensor_extends_expert},
               {"hierarchical_expert_communication", p.hierarchical_expert_communication},
               {"overlap_forward_backward", p.overlap_forward_backward},
               {"data", p.data},
               {"micro_batch", p.micro_batch},
               {"placement", search::name_of(ranked.layout.spread)},
               {"head_stage", p.main_head_stage()},
               {"fits", f.fits},
               {"reason", f.reason},
               {"peak_bytes", f.peak_bytes},
               {"step_ms", ms(f.step_ns)},
               {"bound_ms", ms(ranked.bound_ns)},
               {"tokens_per_s", tokens_per_s(report, f)},
               {"binds", f.fits ? search::binding_of(f) : "memory"},
               {"unmeasured_terms", unmeasured_in(report, ranked).names()}};
  if (ranked.layout.spread == search::Spread::found) json["layers_by_stage"] = ranked.layout.placement.layers;
  for (const auto& [name, ns] : parts_of(f)) json[std::string(name) + "_ms"] = ms(ns);
  return json;
}

}  // namespace

std::string difference_text(const search::LayoutFigures& layout, const search::LayoutFigures& other) {
  const Unit unit = unit_for(std::max(layout.step_ns, other.step_ns));
  Parts parts = parts_of(layout);
  const Parts others = parts_of(other);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].second -= others[i].second;
  std::ranges::stable_sort(parts, std::greater<>{}, [](const auto& part) { return std::abs(part.second); });
  std::string text;
  for (const auto& [name, ns] : parts)
    if (std::abs(static_cast<double>(ns)) >= unit.ns / 200)
      text +=
          fmt::format("{}{} {:+.2f} {}", text.empty() ? "" : ", ", name, static_cast<double>(ns) / unit.ns, unit.name);
  return text.empty() ? "no part differs by as much as 0.005 " + std::string(unit.name) : text;
}

std::string search_text(const SearchReport& report) {
  std::string text = verdict(report) + counts(report);
  if (!report.result.best.empty()) text += table_of(report) + unmeasured_lines(report);
  return text + given_lines(report);
}

std::string search_json(const SearchReport& report) {
  const search::LayoutSearchResult& r = report.result;
  Json json = {{"devices", report.devices},
               {"tried", report.space.tried},
               {"legal", report.space.layouts.size()},
               {"refused", report.space.refused},
               {"over_static", r.over_static},
               {"bounded_away", r.bounded_away},
               {"planned", r.planned},
               {"misfit", r.misfit},
               {"placed", r.placed},
               {"below", r.below},
               {"proven", r.proven()},
               {"best", Json::array()},
               {"given", nullptr}};
  for (const search::RankedLayout& ranked : r.best) json["best"].push_back(layout_json(report, ranked));
  if (r.given) {
    json["given"] = layout_json(report, *r.given);
    json["given"]["rank"] = r.given_rank;
    json["given"]["faster_unplanned"] = r.faster_than_given;
  }
  return json.dump(2) + "\n";
}

}  // namespace tidemark::formats
