#include "integrations/run/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "integrations/formats/html_text.h"
#include "integrations/formats/line_chart.h"
#include "integrations/formats/report_page.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::run {
namespace {

using formats::chart_html;
using formats::ChartLine;

/// Of the devices that played one step.
struct StepRow {
  std::int64_t devices = 0, refused = 0;
  std::int64_t step_ns = 0, loads_ns = 0;  ///< of the slowest that completed
  Bytes peak_bytes = 0, beside_bytes = 0;
  RungCounts rungs{};
};

std::map<std::int64_t, StepRow> rows_of(const TraceOutcome& outcome) {
  std::map<std::int64_t, StepRow> rows;
  for (const TracedStep& step : outcome.steps) {
    StepRow& row = rows[step.step];
    ++row.devices;
    row.loads_ns = std::max(row.loads_ns, step.loads_ns);
    if (!step.refused.empty()) {
      ++row.refused;
      continue;
    }
    row.step_ns = std::max(row.step_ns, step.step_ns);
    row.peak_bytes = std::max(row.peak_bytes, step.peak_bytes);
    row.beside_bytes = std::max(row.beside_bytes, step.beside_bytes);
    for (std::size_t i = 0; i < row.rungs.size(); ++i) row.rungs[i] += step.rungs[i];
  }
  return rows;
}

class Page {
 public:
  explicit Page(const TraceOutcome& outcome) : outcome_(outcome), rows_(rows_of(outcome)) {
    for (const auto& [step, row] : rows_) places_.push_back(step);
  }

  [[nodiscard]] std::string text() const {
    return head() + loads() + times() + memory() + rungs() + "</main></body></html>\n";
  }

 private:
  template <class Of>
  [[nodiscard]] std::vector<double> over_steps(Of of) const {
    std::vector<double> values;
    for (const auto& [step, row] : rows_) values.push_back(row.refused == row.devices ? NAN : of(row));
    return values;
  }

  [[nodiscard]] std::string head() const {
    const std::string whose = outcome_.ask.device ? fmt::format("device {}", *outcome_.ask.device)
                                                  : fmt::format("all {} devices", outcome_.shape.devices);
    std::string page = fmt::format(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
        "<title>Expert loads: {0}</title>\n<style>{1}</style></head>\n<body><main>\n<h1>Steps under the loads of "
        "{0}</h1>\n"
        "<p class=\"soft\">Simulated on {2}: every time and size here comes from the runtime on simulated devices, at "
        "true sizes, or from the model where it says so; nothing is measured. {3} of the expert group{4}, {5}.</p>\n",
        formats::html_text(outcome_.file), formats::kReportStyle, formats::html_text(outcome_.product), whose,
        outcome_.ask.rank ? fmt::format(", rank {}", *outcome_.ask.rank) : ", all ranks",
        formats::counted_text(std::ssize(places_), "step"));
    page += fmt::format("<div class=\"verdict {}\"><b>{}</b><span>{}</span></div>\n", outcome_.ok() ? "good" : "bad",
                        outcome_.ok() ? "OK" : "FAIL",
                        fmt::format("{} of {} completed, {}", std::ssize(outcome_.steps) - outcome_.refused(),
                                    formats::counted_text(std::ssize(outcome_.steps), "device-step"),
                                    formats::counted_text(outcome_.races(), "race")));
    return page;
  }

  [[nodiscard]] std::string loads() const {
    std::map<std::int64_t, StepLoadFigures> of_step;
    for (const StepLoadFigures& figures : outcome_.loads) of_step[figures.step] = figures;
    ChartLine most{.name = "highest of any site"}, fullest{.name = "fullest device, mean over sites (times follow it)"};
    for (const std::int64_t step : places_) {
      most.values.push_back(of_step[step].most);
      fullest.values.push_back(of_step[step].fullest_mean);
    }
    const std::string planned =
        outcome_.least_planned_load == outcome_.most_planned_load
            ? fmt::format("planned {:.3f}", outcome_.most_planned_load)
            : fmt::format("planned {:.3f} to {:.3f} by rank", outcome_.least_planned_load, outcome_.most_planned_load);
    return chart_html({.title = "Expert load",
                       .unit = "rows over the mean",
                       .places = places_,
                       .lines = {std::move(fullest), std::move(most)},
                       .limit = ChartLine{.name = planned, .values = {outcome_.most_planned_load}}});
  }

  [[nodiscard]] std::string times() const {
    const auto seconds = [](std::int64_t ns) { return static_cast<double>(ns) / 1e9; };
    return chart_html(
        {.title = "Step time",
         .unit = "seconds, simulated",
         .places = places_,
         .lines = {{.name = "these loads by themselves (modelled)",
                    .values = over_steps([&](const StepRow& row) { return seconds(row.loads_ns); })},
                   {.name = "step", .values = over_steps([&](const StepRow& row) { return seconds(row.step_ns); })}},
         .limit = ChartLine{.name = "step as planned", .values = {seconds(outcome_.planned_ns)}}});
  }

  [[nodiscard]] std::string memory() const {
    const auto gib = [](Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); };
    return chart_html({.title = "Device memory",
                       .unit = "GiB, reserves included",
                       .places = places_,
                       .lines = {{.name = "fullest rank",
                                  .values = over_steps([&](const StepRow& row) { return gib(row.peak_bytes); })}},
                       .limit = ChartLine{.name = "budget", .values = {gib(outcome_.budget_bytes)}}}) +
           chart_html({.title = "Memory beside slots",
                       .unit = "GiB at once, of the rank that has most",
                       .places = places_,
                       .lines = {{.name = "beside slots",
                                  .values = over_steps([&](const StepRow& row) { return gib(row.beside_bytes); })}}});
  }

  [[nodiscard]] std::string rungs() const {
    constexpr std::array<const char*, kRungNames.size()> kSays = {
        "storages beside their slots", "of them out of device memory in between", "sections in chunks"};
    std::string charts;
    for (std::size_t i = 0; i < kRungNames.size(); ++i)
      charts += chart_html(
          {.title = fmt::format("Rung {}: {}", kRungNames[i], kSays[i]),
           .unit = "a device-step",
           .places = places_,
           .lines = {{.name = std::string(kRungNames[i]), .values = over_steps([&](const StepRow& row) {
                                                            return static_cast<double>(row.rungs[i]) /
                                                                   static_cast<double>(row.devices - row.refused);
                                                          })}}});
    return charts;
  }

  const TraceOutcome& outcome_;
  std::map<std::int64_t, StepRow> rows_;
  std::vector<std::int64_t> places_;  ///< steps
};

}  // namespace

std::string trace_html(const TraceOutcome& outcome) {
  return Page(outcome).text();
}

}  // namespace tidemark::run
