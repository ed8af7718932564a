#include "integrations/run/load_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "integrations/formats/file.h"
#include "integrations/formats/import_expert_counts.h"
#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"
#include "planner/known_share.h"
#include "planner/site_rooms.h"

namespace tidemark::run {
namespace {

using Json = nlohmann::ordered_json;

/// What some steps showed of a rank.
struct Seen {
  std::int64_t device_steps = 0, above = 0;  ///< ... with a site above its room
  std::int64_t sites = 0, sites_above = 0;   ///< over all device-steps
};

struct RankRooms {
  std::vector<plan::SiteRoom> rooms;
  Seen fitted, behind;
};

void count(const StepLoads& loads, std::int64_t first, std::int64_t last, const std::vector<plan::SiteRoom>& rooms,
           Seen& seen) {
  for (std::int64_t device = first; device < last; ++device) {
    std::int64_t above = 0;
    for (const plan::SiteRoom& room : rooms)
      above += loads.at(room.layer, room.micro_batch, device) > room.load ? 1 : 0;
    ++seen.device_steps;
    seen.above += above > 0 ? 1 : 0;
    seen.sites += std::ssize(rooms);
    seen.sites_above += above;
  }
}

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::vector<std::string> cells_of(const ForecastShare& share) {
  const plan::ShareForecast& p = share.predicted;
  return {formats::percent_text(p.probability),
          fmt::format("{} to {}", formats::percent_text(p.low), formats::percent_text(p.high)),
          fmt::format("{} to {}", formats::percent_text(p.seen_low), formats::percent_text(p.seen_high)),
          formats::percent_text(share.seen)};
}

Json json_of(const ForecastShare& share) {
  const plan::ShareForecast& p = share.predicted;
  return {{"probability", p.probability},
          {"probability_interval", {p.low, p.high}},
          {"seen_interval", {p.seen_low, p.seen_high}},
          {"seen", share.seen},
          {"held", share.is_held()}};
}

Json json_of(const graph_build::LoadParts& parts) {
  return {{"popularity", parts.popularity}, {"device", parts.device}, {"site", parts.site}};
}

}  // namespace

Result<LoadForecast> forecast_loads(const plan::PlanOutcome& plan, const graph_build::LoadShape& shape,
                                    const ForecastQuestion& question, const std::filesystem::path& file) {
  Result<std::ifstream> in = formats::open_file(file);
  if (!in) return in.error();
  formats::ExpertCountReader reader(in.value(), file.string());
  std::vector<RankRooms> ranks;
  for (const plan::RankPlan& rank : plan.ranks) ranks.push_back({.rooms = plan::site_rooms(rank)});
  graph_build::LoadFitter fitter(
      {.layers = std::ssize(shape.layers), .micro_batches = shape.micro_batches, .devices = shape.devices});
  const std::int64_t first = question.device.value_or(0), last = question.device ? first + 1 : shape.devices;
  LoadForecast forecast{.file = file.string(), .devices = last - first};
  std::int64_t steps = 0;
  for (;; ++steps) {
    const Result<std::optional<formats::CountedStep>> step = reader.next();
    if (!step) return step.error();
    if (!step.value()) break;
    const Result<StepLoads> loads = StepLoads::of(*step.value(), shape, reader);
    if (!loads) return loads.error();
    const bool fits = steps < question.fit_steps;
    if (fits) fitter.add(loads.value().all());
    std::vector<NumberedLoads>& kept = fits ? forecast.fitted : forecast.seen;
    if (fits || std::ssize(kept) < question.kept_steps) kept.push_back({step.value()->step, loads.value()});
    if (std::ssize(kept) > question.kept_steps) kept.erase(kept.begin());
    forecast.most_load = std::max(forecast.most_load, loads.value().most());
    for (RankRooms& rank : ranks) count(loads.value(), first, last, rank.rooms, fits ? rank.fitted : rank.behind);
  }
  forecast.fit = fitter.fit();
  forecast.is_behind = steps > fitter.steps();
  if (!forecast.is_behind) forecast.seen = forecast.fitted;
  forecast.steps_seen = forecast.is_behind ? steps - fitter.steps() : steps;
  const plan::ForecastAsk ask{
      .steps = forecast.steps_seen, .layers = shape.layers, .device = question.device.value_or(-1)};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const plan::RankFigures& figures = plan.ranks[i].figures;
    const auto layers = plan::layer_rooms(ranks[i].rooms);
    const plan::OverflowForecast predicted = plan::forecast_overflow(forecast.fit, layers, ask);
    const Seen& seen = forecast.is_behind ? ranks[i].behind : ranks[i].fitted;
    RankForecast rank{.rank = figures.rank,
                      .planned_load = figures.load,
                      .sites = std::ssize(ranks[i].rooms),
                      .device_steps = {.predicted = predicted.steps, .seen = share(seen.above, seen.device_steps)},
                      .site_share = {.predicted = predicted.sites, .seen = share(seen.sites_above, seen.sites)}};
    rank.at_most =
        std::max(predicted.steps.seen_high, plan::share_at_most(ranks[i].fitted.above, ranks[i].fitted.device_steps,
                                                                std::max<std::int64_t>(1, seen.device_steps)));
    rank.least_room = layers.empty() ? 0 : std::ranges::min(layers, {}, &plan::LayerRoom::load).load;
    forecast.ranks.push_back(rank);
  }
  return forecast;
}

std::string forecast_text(const LoadForecast& forecast) {
  std::string text = fmt::format(
      "loads of {}, up to {:.3f}: {} {}, {}\nfitted to {}\n\n", forecast.file, forecast.most_load,
      formats::counted_text(forecast.steps_seen, "step"),
      forecast.is_behind ? "behind those the model is fitted to" : "that the model is fitted to",
      formats::counted_text(forecast.steps_seen * forecast.devices, "device-step"), formats::loads_text(forecast.fit));
  formats::TextTable table({"rank", "planned f", "slots up to f", "sites", "device-steps above %", "interval",
                            "will show", "seen", "at most", "sites above %", "interval", "will show", "seen"});
  std::int64_t over = 0, under = 0, above_bound = 0, shares = 0;
  for (const RankForecast& rank : forecast.ranks) {
    if (rank.sites == 0) continue;
    std::vector<std::string> cells = {fmt::format("{}", rank.rank), fmt::format("{:.3f}", rank.planned_load),
                                      fmt::format("{:.3f}", rank.least_room), fmt::format("{}", rank.sites)};
    for (const ForecastShare* share : {&rank.device_steps, &rank.site_share}) {
      for (std::string& cell : cells_of(*share)) cells.push_back(std::move(cell));
      if (share == &rank.device_steps) cells.push_back(formats::percent_text(rank.at_most));
      ++shares;
      over += share->seen > share->predicted.seen_high ? 1 : 0;
      under += share->seen < share->predicted.seen_low ? 1 : 0;
    }
    above_bound += rank.device_steps.seen > rank.at_most ? 1 : 0;
    table.add(std::move(cells));
  }
  text += fmt::format(
      "Routed storages above their slots (predicted by the model; interval: {0:.0f} % of the probability, for what the "
      "fit leaves open; will show: {0:.0f} % of what so many steps show; seen: counted; at most: {1:.1f} % one-sided, "
      "by "
      "the model or the counts of the fitted steps)\n{2}",
      100 * plan::kShareConfidence, 50 * (1 + plan::kShareConfidence), table.text());
  return text +
         fmt::format("\n{} of {} shares seen lie above what the model said, {} below; {} of {} above \"at most\"\n",
                     over, shares, under, above_bound, shares / 2);
}

std::string forecast_json(const LoadForecast& forecast) {
  const graph_build::LoadFit& fit = forecast.fit;
  Json json{{"loads", forecast.file},
            {"steps_seen", forecast.steps_seen},
            {"device_steps", forecast.steps_seen * forecast.devices},
            {"seen_behind_fit", forecast.is_behind},
            {"most_load", forecast.most_load},
            {"model",
             {{"steps", fit.steps},
              {"mean", fit.model.mean},
              {"variance", json_of(fit.model.variance)},
              {"standard_error", json_of(fit.error)},
              {"persistence", fit.model.persistence},
              {"fullest_load", fit.fullest},
              {"fullest_load_of_model", graph_build::mean_fullest_load(fit.model, fit.shape.devices)},
              {"missing", fit.missing.empty() ? Json() : Json(fit.missing)}}},
            {"confidence", plan::kShareConfidence}};
  json["ranks"] = Json::array();
  for (const RankForecast& rank : forecast.ranks)
    json["ranks"].push_back({{"rank", rank.rank},
                             {"planned_load", rank.planned_load},
                             {"least_room", rank.sites > 0 ? Json(rank.least_room) : Json()},
                             {"sites", rank.sites},
                             {"device_steps_above", json_of(rank.device_steps)},
                             {"device_steps_at_most", rank.at_most},
                             {"sites_above", json_of(rank.site_share)}});
  return json.dump(2) + "\n";
}

}  // namespace tidemark::run
