#include "integrations/formats/accuracy_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/bytes.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/text_table.h"

namespace tidemark::formats {
namespace {

using estimate::AccuracySummary;
using estimate::ErrorFigures;
using estimate::MeasuredRun;
using estimate::ScoredRank;
using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestName = 64;

std::string mib_text(const std::optional<double>& bytes) {
  return bytes ? fmt::format("{:.1f}", *bytes / kMiB) : "-";
}

std::string error_text(double predicted, const std::optional<double>& measured) {
  return measured ? fmt::format("{:+.2f}", (predicted / *measured - 1) * 100) : "-";
}

std::string name_text(const MeasuredRun& run) {
  std::string name = run.name.size() > kLongestName ? run.name.substr(0, kLongestName - 3) + "..." : run.name;
  if (!run.variant.empty()) name += " " + run.variant;
  return name.empty() ? "-" : name;
}

std::string rank_text(const ScoredRank& at) {
  return at.rank ? fmt::format("{}", *at.rank) : "-";
}

std::string mark_of(const ScoredRank& at) {
  if (at.calibrates) return "calibrates its model";
  return at.in_summary ? "" : "not in the summary";
}

std::string predicted_lines(const AccuracyReport& report) {
  TextTable table({"steady MiB", "measured", "error %", "peak MiB", "measured", "error %", "rank", "run", ""}, {7, 8});
  for (const ScoredRank& at : report.ranks) {
    if (!at.predicted) continue;
    const auto& [steady, peak] = *at.predicted;
    table.add({mib_text(steady), mib_text(at.measured.steady_bytes), error_text(steady, at.measured.steady_bytes),
               mib_text(peak), mib_text(at.measured.peak_bytes), error_text(peak, at.measured.peak_bytes),
               rank_text(at), name_text(report.runs[at.run]), mark_of(at)});
  }
  return table.text();
}

/// A run once, however many ranks it has.
std::string refused_lines(const AccuracyReport& report) {
  std::string text;
  std::optional<std::size_t> last;
  std::string reason;
  for (const ScoredRank& at : report.ranks) {
    if (at.predicted || (last == at.run && reason == at.refused)) continue;
    last = at.run;
    reason = at.refused;
    text += fmt::format("refused {}{}: {}\n", name_text(report.runs[at.run]),
                        at.in_summary ? "" : " (not in the summary)", at.refused);
  }
  return text;
}

std::vector<std::string> suites_of(const AccuracyReport& report) {
  std::vector<std::string> suites;
  for (const MeasuredRun& run : report.runs)
    if (!run.suite.empty() && std::ranges::find(suites, run.suite) == suites.end()) suites.push_back(run.suite);
  std::ranges::sort(suites);
  return suites;
}

void add_summary(TextTable& table, const std::string& name, const AccuracySummary& s) {
  const auto percent = [](double value, const ErrorFigures& of) {
    return of.count > 0 ? fmt::format("{:.2f}", value) : std::string("-");
  };
  table.add({name, fmt::format("{}", s.steady.count), percent(s.steady.median_percent, s.steady),
             percent(s.steady.p90_percent, s.steady), percent(s.steady.worst_percent, s.steady),
             percent(s.peak.median_percent, s.peak), percent(s.peak.p90_percent, s.peak),
             percent(s.peak.worst_percent, s.peak), fmt::format("{}", s.refused),
             fmt::format("{} of {}", s.refused_runs, s.runs)});
}

double share(std::size_t part, std::size_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string summary_lines(const AccuracyReport& report) {
  TextTable table({"", "ranks", "steady median %", "p90 %", "worst %", "peak median %", "p90 %", "worst %",
                   "refused ranks", "runs"},
                  {0});
  const AccuracySummary all = estimate::summarize(report.runs, report.ranks);
  add_summary(table, "all", all);
  for (const std::string& suite : suites_of(report))
    add_summary(table, suite, estimate::summarize(report.runs, report.ranks, suite));
  std::string text =
      "absolute errors of predicted against measured, over runs that peak above 1 GiB and made at least three "
      "iterations (Ascend: all)\n" +
      table.text(2);
  for (const estimate::BandFigures& at : all.bands)
    text += fmt::format(
        "band of check, {}: {} % above a cautious prediction; exceeded by {} of {} ranks ({:.1f} %, stated: at most {} "
        "%)\n",
        at.band->name, at.band->percent, at.exceeded, at.count, share(at.exceeded, at.count), at.band->share_percent);
  if (all.rival_peak.count == 0) return text;
  TextTable rivals({"on the ranks both predict", "ranks", "steady median %", "p90 %", "peak median %", "p90 %"}, {0});
  const auto add = [&rivals](const std::string& name, const ErrorFigures& steady, const ErrorFigures& peak) {
    rivals.add({name, fmt::format("{}", peak.count), fmt::format("{:.2f}", steady.median_percent),
                fmt::format("{:.2f}", steady.p90_percent), fmt::format("{:.2f}", peak.median_percent),
                fmt::format("{:.2f}", peak.p90_percent)});
  };
  add("tidemark", all.beside_steady, all.beside_peak);
  add("Megatron-LM's own formula", all.rival_steady, all.rival_peak);
  return text + rivals.text(2);
}

Json bytes_json(const std::optional<double>& bytes) {
  return bytes ? Json(std::llround(*bytes)) : Json(nullptr);
}

Json row_json(const AccuracyReport& report, const ScoredRank& at) {
  const MeasuredRun& run = report.runs[at.run];
  const auto predicted = [&at](double estimate::MemoryFigures::*member) {
    return at.predicted ? bytes_json((*at.predicted).*member) : Json(nullptr);
  };
  return {{"case", run.name},
          {"variant", run.variant.empty() ? Json(nullptr) : Json(run.variant)},
          {"rank", at.rank ? Json(*at.rank) : Json(nullptr)},
          {"predicted_steady_bytes", predicted(&estimate::MemoryFigures::steady_bytes)},
          {"measured_steady_bytes", bytes_json(at.measured.steady_bytes)},
          {"predicted_peak_bytes", predicted(&estimate::MemoryFigures::peak_bytes)},
          {"measured_peak_bytes", bytes_json(at.measured.peak_bytes)},
          {"refused", at.refused.empty() ? Json(nullptr) : Json(at.refused)},
          {"suite", run.suite.empty() ? Json(nullptr) : Json(run.suite)},
          {"in_summary", at.in_summary && !at.calibrates},
          {"calibrates", at.calibrates},
          {"checked_peak_bytes", bytes_json(at.checked_peak_bytes)},
          {"band_percent", at.band ? Json(at.band->percent) : Json(nullptr)}};
}

Json figures_json(const ErrorFigures& figures) {
  const bool any = figures.count > 0;
  const auto percent = [any](double value) { return any ? Json(value) : Json(nullptr); };
  return {{"count", figures.count},
          {"median_percent", percent(figures.median_percent)},
          {"p90_percent", percent(figures.p90_percent)},
          {"worst_percent", percent(figures.worst_percent)}};
}

Json summary_json(const AccuracySummary& s) {
  Json json = {
      {"steady", figures_json(s.steady)}, {"peak", figures_json(s.peak)}, {"refused", s.refused}, {"runs", s.runs},
      {"refused_runs", s.refused_runs},   {"bands", Json::array()}};
  for (const estimate::BandFigures& at : s.bands)
    json["bands"].push_back({{"class", at.band->name},
                             {"percent", at.band->percent},
                             {"share_percent", at.band->share_percent},
                             {"count", at.count},
                             {"exceeded", at.exceeded}});
  if (s.rival_peak.count > 0)
    json["megatron_formula"] = {{"steady", figures_json(s.rival_steady)},
                                {"peak", figures_json(s.rival_peak)},
                                {"tidemark_steady", figures_json(s.beside_steady)},
                                {"tidemark_peak", figures_json(s.beside_peak)}};
  return json;
}

}  // namespace

std::string accuracy_text(const AccuracyReport& report) {
  std::string text = report.what + ": predicted from arguments alone against measured memory\n";
  for (const std::string& note : report.notes) text += note + "\n";
  return text + predicted_lines(report) + refused_lines(report) + summary_lines(report);
}

std::string accuracy_json(const AccuracyReport& report) {
  Json json = {{"rows", Json::array()}, {"summary", nullptr}, {"suites", Json::object()}, {"notes", report.notes}};
  for (const ScoredRank& at : report.ranks) json["rows"].push_back(row_json(report, at));
  json["summary"] = summary_json(estimate::summarize(report.runs, report.ranks));
  for (const std::string& suite : suites_of(report))
    json["suites"][suite] = summary_json(estimate::summarize(report.runs, report.ranks, suite));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidemark::formats
