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

Bytes whole(double bytes) {
  return static_cast<Bytes>(std::llround(bytes));
}

std::string gib(double bytes) {
  return gib_text(whole(bytes));
}

std::string_view origin_text(estimate::Origin origin) {
  return kOrigins[static_cast<std::size_t>(origin)];
}

std::vector<std::string> not_understood(const RankMemoryReport& report) {
  std::vector<std::string> names;
  for (const JudgedArgument& argument : report.imported->judged)
    if (argument.standing == Standing::not_understood)
      names.push_back(argument.name.empty() ? argument.place : argument.name);
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

}  // namespace tidemark::formats
