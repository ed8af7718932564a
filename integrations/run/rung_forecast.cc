#include "integrations/run/rung_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"
#include "planner/graph_build/load_draws.h"
#include "planner/known_share.h"
#include "planner/load_posterior.h"

namespace tidemark::run {
namespace {

using Json = nlohmann::ordered_json;

Result<GroupStep> play(TraceRun& run, std::int64_t step, const StepLoads& loads) {
  const Result<std::vector<TracedStep>> devices = run.play(step, loads);
  if (!devices) return devices.error();
  GroupStep group{.step = step};
  std::int64_t step_ns = 0, loads_ns = 0;
  for (const TracedStep& device : devices.value()) {
    for (std::size_t k = 0; k < group.rungs.size(); ++k) group.rungs[k] += device.rungs[k];
    group.refused += device.refused.empty() ? 0 : 1;
    step_ns = std::max(step_ns, device.step_ns);
    loads_ns = std::max(loads_ns, device.loads_ns);
  }
  if (group.refused == 0) group.added_ms = static_cast<double>(step_ns - loads_ns) / 1e6;
  return group;
}

std::int64_t count_with(std::span<const GroupStep> steps, Rung rung) {
  return std::ranges::count_if(steps, [&](const GroupStep& s) { return s.rungs[static_cast<std::size_t>(rung)] > 0; });
}

double mean_added_ms(const std::vector<GroupStep>& steps) {
  const double sum =
      std::accumulate(steps.begin(), steps.end(), 0.0, [](double all, const GroupStep& s) { return all + s.added_ms; });
  return steps.empty() ? 0 : sum / static_cast<double>(steps.size());
}

Json rungs_json(const RungCounts& rungs) {
  Json json = Json::object();
  for (std::size_t k = 0; k < rungs.size(); ++k) json[kRungNames[k]] = rungs[k];
  return json;
}

}  // namespace

RungShare RungForecast::share(Rung rung) const {
  std::vector<std::int64_t> of_truths;
  for (std::size_t begin = 0; begin < drawn.size(); begin += kStepsOfTruth)
    of_truths.push_back(count_with(std::span(drawn).subspan(begin, kStepsOfTruth), rung));
  const plan::KnownShare known = plan::share_of_next(of_truths, kStepsOfTruth);
  const std::int64_t next = std::ssize(seen);
  const double beyond = (1 - plan::kShareConfidence) / 2;
  const double high = plan::share_quantile(known, next, 1 - beyond);
  return {.predicted = static_cast<double>(count_with(drawn, rung)) / static_cast<double>(drawn.size()),
          .low = plan::share_quantile(known, next, beyond),
          .high = high,
          .at_most = std::max(high, plan::share_at_most(count_with(fitted, rung), std::ssize(fitted), next)),
          .seen = static_cast<double>(count_with(seen, rung)) / static_cast<double>(next)};
}

std::int64_t RungForecast::refused() const {
  std::int64_t devices = 0;
  for (const std::vector<GroupStep>* steps : {&drawn, &fitted, &seen})
    for (const GroupStep& step : *steps) devices += step.refused;
  return devices;
}

Result<RungForecast> forecast_rungs(const plan::PlanOutcome& plan, const Machine& machine,
                                    const graph_build::LoadShape& shape, const TraceAsk& ask, const LoadForecast& loads,
                                    std::int64_t count) {
  Result<TraceRun> run = TraceRun::open(plan, machine, shape, ask);
  if (!run) return run.error();
  std::vector<std::size_t> layers(shape.layers.size());
  std::iota(layers.begin(), layers.end(), std::size_t{0});
  plan::LoadPosterior truth(loads.fit, std::move(layers), 1);
  RungForecast forecast;
  const auto add = [&](std::int64_t step, const StepLoads& of, std::vector<GroupStep>& to) -> Status {
    const Result<GroupStep> played = play(run.value(), step, of);
    if (!played) return played.error();
    to.push_back(played.value());
    return {};
  };
  const std::int64_t ahead = std::ssize(loads.seen);
  while (std::ssize(forecast.drawn) < count) {
    truth.draw();
    double now = 0;
    for (std::int64_t i = 0; i < kStepsOfTruth; ++i) {
      const double then = std::ceil(static_cast<double>(ahead * (2 * i + 1)) / (2 * kStepsOfTruth));
      truth.drift(then - std::exchange(now, then));
      const StepLoads drawn =
          StepLoads::of_rows(graph_build::share_rows(shape, truth.draw_step(), shape.all_rows()), shape);
      if (Status s = add(std::ssize(forecast.drawn), drawn, forecast.drawn); !s) return s.error();
    }
  }
  for (const NumberedLoads& one : loads.fitted)
    if (Status s = add(one.step, one.loads, forecast.fitted); !s) return s.error();
  forecast.is_behind = loads.is_behind;
  if (!loads.is_behind) forecast.seen = forecast.fitted;
  for (const NumberedLoads& one : loads.is_behind ? std::span(loads.seen) : std::span<const NumberedLoads>())
    if (Status s = add(one.step, one.loads, forecast.seen); !s) return s.error();
  return forecast;
}

std::string rung_forecast_text(const RungForecast& forecast) {
  formats::TextTable table({"rung", "steps %", "will show", "at most", "seen"});
  for (std::size_t k = 0; k < kRungNames.size(); ++k) {
    const RungShare share = forecast.share(static_cast<Rung>(k));
    table.add({std::string(kRungNames[k]), formats::percent_text(share.predicted),
               fmt::format("{} to {}", formats::percent_text(share.low), formats::percent_text(share.high)),
               formats::percent_text(share.at_most), formats::percent_text(share.seen)});
  }
  return fmt::format(
      "\nSteps that take a rung on any device (simulated): {0} drawn from the fitted model, {1} seen{9}. Will show: "
      "{2:.0f} % of "
      "what so many steps show; at most: {3:.1f} % one-sided, by the steps drawn or the {4} fitted ones that were "
      "played\n{5}"
      "beyond these loads by themselves, of the device that takes longest: {6:.1f} ms in the mean of the "
      "steps drawn, {7:.1f} seen\n{8}",
      forecast.drawn.size(), forecast.seen.size(), 100 * plan::kShareConfidence, 50 * (1 + plan::kShareConfidence),
      forecast.fitted.size(), table.text(), mean_added_ms(forecast.drawn), mean_added_ms(forecast.seen),
      forecast.refused() == 0 ? std::string()
                              : formats::counted_text(forecast.refused(), "device-step") +
                                    (forecast.refused() == 1 ? " was refused\n" : " were refused\n"),
      forecast.is_behind ? "" : " (those that it is fitted to)");
}

std::string with_rungs(const std::string& json, const RungForecast& forecast) {
  Json rungs{{"time_is", "simulated"},
             {"drawn_steps", forecast.drawn.size()},
             {"fitted_steps", forecast.fitted.size()},
             {"seen_steps", forecast.seen.size()},
             {"seen_behind_fit", forecast.is_behind},
             {"refused", forecast.refused()},
             {"added_ms", {{"drawn", mean_added_ms(forecast.drawn)}, {"seen", mean_added_ms(forecast.seen)}}}};
  for (std::size_t k = 0; k < kRungNames.size(); ++k) {
    const RungShare share = forecast.share(static_cast<Rung>(k));
    rungs[kRungNames[k]] = {{"probability", share.predicted},
                            {"seen_interval", {share.low, share.high}},
                            {"at_most", share.at_most},
                            {"seen", share.seen},
                            {"held", share.is_held()}};
  }
  rungs["steps"] = Json::array();
  for (const GroupStep& step : forecast.seen)
    rungs["steps"].push_back({{"step", step.step}, {"rungs", rungs_json(step.rungs)}, {"added_ms", step.added_ms}});
  Json object = Json::parse(json);
  object["rungs"] = std::move(rungs);
  return object.dump(2) + "\n";
}

}  // namespace tidemark::run
