#include "integrations/formats/rank_memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "integrations/formats/shown.h"
#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using estimate::JudgedArgument;
using estimate::RankMemory;
using estimate::Standing;
using estimate::Term;
using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kOrigins = {"code", "default", "fitted"};
constexpr std::array<std::string_view, 3> kVerdicts = {"PASS", "NEAR", "FAIL"};

Bytes whole(double bytes) {
  return static_cast<Bytes>(std::llround(bytes));
}

std::string gib(double bytes) {
  return gib_text(whole(bytes));
}

std::string_view verdict_text(BandVerdict verdict) {
  return kVerdicts[static_cast<std::size_t>(verdict)];
}

std::string_view origin_text(estimate::Origin origin) {
  return kOrigins[static_cast<std::size_t>(origin)];
}

std::vector<std::string> not_understood(const RankMemoryReport& report) {
  std::vector<std::string> names;
  for (const JudgedArgument& argument : report.imported->judged)
    if (argument.standing == Standing::not_understood) names.push_back(argument.name);
  return names;
}

std::string stage_table(const RankMemoryReport& report) {
  TextTable table({"stage", "rank", "parameters", "steady GiB", "first step's peak", "peak", "peak later"});
  for (const RankMemory& at : report.stages)
    table.add({fmt::format("{}", at.stage), fmt::format("{}", at.rank), count_text(at.parameters), gib(at.steady_bytes),
               gib(at.first_peak_bytes), gib(at.peak_bytes), gib(at.running_peak_bytes)});
  return table.text(2);
}

struct PlacedTerm {
  std::string_view when;
  const Term* term = nullptr;
};

/// Largest first, of both kinds.
std::vector<PlacedTerm> terms_of(const RankMemory& at) {
  std::vector<PlacedTerm> terms;
  for (const Term& term : at.steady) terms.push_back({"steady", &term});
  for (const Term& term : at.at_peak) terms.push_back({"at the peak", &term});
  std::ranges::stable_sort(terms, std::greater{}, [](const PlacedTerm& t) { return std::abs(t.term->bytes); });
  return terms;
}

std::string term_table(const RankMemory& at, std::size_t most) {
  const std::vector<PlacedTerm> terms = terms_of(at);
  if (most == 0 || terms.empty()) return "";
  TextTable table({"GiB", "term", "when", "rule is", "source"}, {1, 2, 3, 4});
  for (std::size_t i = 0; i < std::min(most, terms.size()); ++i) {
    const Term& term = *terms[i].term;
    table.add({gib(term.bytes), std::string(term.name), std::string(terms[i].when),
               std::string(origin_text(term.origin)), std::string(term.source)});
  }
  std::string text = fmt::format("stage {}, rank {}\n", at.stage, at.rank) + table.text(2);
  if (terms.size() > most) text += fmt::format("  [{} others]\n", terms.size() - most);
  return text;
}

std::string note_lines(const RankMemoryReport& report) {
  std::string text;
  for (const std::string& note : report.notes) text += note + "\n";
  return text;
}

Json term_json(const PlacedTerm& placed) {
  return {{"name", placed.term->name},
          {"when", placed.when == "steady" ? "steady" : "peak"},
          {"bytes", whole(placed.term->bytes)},
          {"origin", origin_text(placed.term->origin)},
          {"source", placed.term->source}};
}

Json stages_json(const RankMemoryReport& report) {
  Json stages = Json::array();
  for (const RankMemory& at : report.stages) {
    Json terms = Json::array();
    for (const PlacedTerm& term : terms_of(at)) terms.push_back(term_json(term));
    stages.push_back({{"stage", at.stage},
                      {"rank", at.rank},
                      {"parameters", at.parameters},
                      {"steady_bytes", whole(at.steady_bytes)},
                      {"first_peak_bytes", whole(at.first_peak_bytes)},
                      {"peak_bytes", whole(at.peak_bytes)},
                      {"running_peak_bytes", whole(at.running_peak_bytes)},
                      {"terms", std::move(terms)}});
  }
  return stages;
}

/// What the figures hold for: with another accelerator or world size they are others.
std::string platform_line(const estimate::TrainingRun& run) {
  return fmt::format("modelled on {}, {} devices\n", accelerator_text(run.platform.accelerator), run.parallel.world);
}

void add_common(Json& json, const RankMemoryReport& report) {
  json["accelerator"] = accelerator_text(report.imported->run.platform.accelerator);
  json["world_size"] = report.imported->run.parallel.world;
  json["stages"] = stages_json(report);
  json["assumed"] = report.imported->notes;
  json["not_understood"] = not_understood(report);
  json["notes"] = report.notes;
}

std::string verdict_line(const RankMemoryReport& report, const BandCheck& check) {
  const RankMemory& worst = report.stages[check.worst];
  const Bytes needed = check.peak_bytes + check.band_bytes;
  const std::string head = fmt::format("{} stage {} (rank {}): predicted peak {}", verdict_text(check.verdict),
                                       worst.stage, worst.rank, format_bytes(check.peak_bytes));
  switch (check.verdict) {
    case BandVerdict::pass:
      return fmt::format("{} and {} of error band are within budget {}\n", head, format_bytes(check.band_bytes),
                         format_bytes(check.budget_bytes));
    case BandVerdict::near:
      if (needed <= check.budget_bytes)
        return fmt::format(
            "{} is within budget {}, but with arguments that are not understood no error band holds: it "
            "may not fit\n",
            head, format_bytes(check.budget_bytes));
      return fmt::format("{} is within budget {}, but with {} of error band it exceeds it by {}: it may not fit\n",
                         head, format_bytes(check.budget_bytes), format_bytes(check.band_bytes),
                         format_bytes(needed - check.budget_bytes));
    case BandVerdict::fail:
      break;
  }
  return fmt::format("{} exceeds budget {} by {}\n", head, format_bytes(check.budget_bytes),
                     format_bytes(check.peak_bytes - check.budget_bytes));
}

std::string band_line(const estimate::TrainingRun& run) {
  const estimate::ErrorBand& band = estimate::band_of(run);
  const std::string load =
      run.model.moe.experts > 0 ? fmt::format(", expert load {}", estimate::kCautiousRoutingLoad) : std::string();
  return fmt::format(
      "error band {} %, {}: of measured runs of this class at most {} % peak above the prediction and the band; "
      "assumed: sequences of full length{} (docs/ACCURACY.md)\n",
      band.percent, band.name, band.share_percent, load);
}

}  // namespace

std::string_view accelerator_text(estimate::Accelerator accelerator) {
  constexpr std::array<std::string_view, 4> kNames = {"A100", "H100", "GB200", "Ascend"};
  return kNames[static_cast<std::size_t>(accelerator)];
}

std::string rank_memory_text(const RankMemoryReport& report, std::size_t most) {
  std::string text = report.what +
                     ": predicted memory of the framework's allocator, one rank per pipeline stage (modelled)\n" +
                     platform_line(report.imported->run) + stage_table(report) + note_lines(report);
  for (const RankMemory& at : report.stages) text += term_table(at, most);
  return text;
}

std::string rank_memory_json(const RankMemoryReport& report) {
  Json json = Json::object();
  add_common(json, report);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

BandCheck check_band(const std::vector<RankMemory>& stages, const estimate::ErrorBand& band, Bytes budget_bytes,
                     bool understood) {
  const auto worst = std::ranges::max_element(stages, {}, &RankMemory::running_peak_bytes);
  BandCheck check{.worst = static_cast<std::size_t>(worst - stages.begin()),
                  .peak_bytes = whole(worst->running_peak_bytes),
                  .band_bytes = whole(worst->running_peak_bytes * band.percent / 100),
                  .budget_bytes = budget_bytes};
  const bool within_band = check.peak_bytes + check.band_bytes <= budget_bytes;
  check.verdict = check.peak_bytes > budget_bytes ? BandVerdict::fail
                  : within_band && understood     ? BandVerdict::pass
                                                  : BandVerdict::near;
  return check;
}

std::string band_check_text(const RankMemoryReport& report, const BandCheck& check, std::size_t most) {
  return verdict_line(report, check) + platform_line(report.imported->run) + band_line(report.imported->run) +
         stage_table(report) + note_lines(report) + term_table(report.stages[check.worst], most);
}

std::string band_check_json(const RankMemoryReport& report, const BandCheck& check) {
  const estimate::ErrorBand& band = estimate::band_of(report.imported->run);
  std::string line = verdict_line(report, check);
  line.pop_back();
  Json json = {{"verdict", verdict_text(check.verdict)},
               {"line", line},
               {"rank", report.stages[check.worst].rank},
               {"stage", report.stages[check.worst].stage},
               {"peak_bytes", check.peak_bytes},
               {"band",
                {{"class", band.name},
                 {"percent", band.percent},
                 {"share_percent", band.share_percent},
                 {"bytes", check.band_bytes},
                 {"routing_load", estimate::kCautiousRoutingLoad}}},
               {"budget_bytes", check.budget_bytes}};
  add_common(json, report);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidemark::formats
