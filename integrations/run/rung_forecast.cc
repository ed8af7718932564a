#include "integrations/run/rung_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "integrations/formats/text_table.h"
#include "planner/graph_build/load_draws.h"
#include "planner/load_posterior.h"
#include "planner/overflow.h"

namespace tidemark::run {
namespace {

using Json = nlohmann::ordered_json;

Result<GroupStep> play(TraceRun& run, std::int64_t step, const StepLoads& loads) {
  const Result<std::vector<TracedStep>> devices = run.play(step, loads);
  if (!devices) return devices.error();
  GroupStep group{.step = step};
  for (const TracedStep& device : devices.value()) {
    for (std::size_t k = 0; k < group.rungs.size(); ++k) group.rungs[k] += device.rungs[k];
    group.refused += device.refused.empty() ? 0 : 1;
    if (device.refused.empty())
      group.added_ms = std::max(group.added_ms, static_cast<double>(device.step_ns - device.as_planned_ns) / 1e6);
  }
  return group;
}

std::int64_t count_with(const std::vector<GroupStep>& steps, Rung rung) {
  return std::ranges::count_if(steps, [&](const GroupStep& s) { return s.rungs[static_cast<std::size_t>(rung)] > 0; });
}

double mean_added_ms(const std::vector<GroupStep>& steps) {
  const double sum =
      std::accumulate(steps.begin(), steps.end(), 0.0, [](double all, const GroupStep& s) { return all + s.added_ms; });
  return steps.empty() ? 0 : sum / static_cast<double>(steps.size());
}

std::int64_t refused(const std::vector<GroupStep>& steps) {
  return std::accumulate(steps.begin(), steps.end(), std::int64_t{0},
                         [](std::int64_t all, const GroupStep& s) { return all + s.refused; });
}

std::string percent(double share) {
  return fmt::format("{:.4g}", 100 * share);
}

Json rungs_json(const RungCounts& rungs) {
  Json json = Json::object();
  for (std::size_t k = 0; k < rungs.size(); ++k) json[kRungNames[k]] = rungs[k];
  return json;
}

}  // namespace

RungShare RungForecast::share(Rung rung) const {
  const std::int64_t of_drawn = count_with(drawn, rung), all = std::ssize(drawn), next = std::ssize(seen);
  const double beyond = (1 - plan::kOverflowConfidence) / 2;
  const double high = plan::share_quantile(of_drawn, all, next, 1 - beyond);
  return {.predicted = static_cast<double>(of_drawn) / static_cast<double>(all),
          .low = plan::share_quantile(of_drawn, all, next, beyond),
          .high = high,
          .at_most = std::max(high, plan::share_at_most(count_with(fitted, rung), std::ssize(fitted), next)),
          .seen = static_cast<double>(count_with(seen, rung)) / static_cast<double>(next)};
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
  for (std::int64_t i = 0; i < count; ++i) {
    truth.draw();
    truth.drift(static_cast<double>(i % std::ssize(loads.seen) + 1));
    const StepLoads drawn = StepLoads::of_rows(graph_build::share_rows(shape, truth.draw_step()), shape);
    if (Status s = add(i, drawn, forecast.drawn); !s) return s.error();
  }
  for (const NumberedLoads& one : loads.seen)
    if (Status s = add(one.step, one.loads, forecast.seen); !s) return s.error();
  for (const NumberedLoads& one : loads.fitted)
    if (Status s = add(one.step, one.loads, forecast.fitted); !s) return s.error();
  return forecast;
}

std::string rung_forecast_text(const RungForecast& forecast) {
  formats::TextTable table({"rung", "steps %", "will show", "at most", "seen"});
  for (std::size_t k = 0; k < kRungNames.size(); ++k) {
    const RungShare share = forecast.share(static_cast<Rung>(k));
    table.add({std::string(kRungNames[k]), percent(share.predicted),
               fmt::format("{} to {}", percent(share.low), percent(share.high)), percent(share.at_most),
               percent(share.seen)});
  }
  return fmt::format(
      "\nSteps that take a rung on any device (simulated): {0} drawn from the fitted model, {1} seen. Will show: "
      "{2:.0f} % of "
      "what so many steps show; at most: {3:.1f} % one-sided, by the steps drawn or the {4} fitted ones that were "
      "played\n{5}"
      "beyond what the loads take by themselves, of the device that takes longest: {6:.1f} ms in the mean of the "
      "steps drawn, {7:.1f} seen\n{8}",
      forecast.drawn.size(), forecast.seen.size(), 100 * plan::kOverflowConfidence,
      50 * (1 + plan::kOverflowConfidence), forecast.fitted.size(), table.text(), mean_added_ms(forecast.drawn),
      mean_added_ms(forecast.seen),
      refused(forecast.drawn) + refused(forecast.seen) == 0
          ? std::string()
          : fmt::format("{} device-steps drawn and {} seen were refused\n", refused(forecast.drawn),
                        refused(forecast.seen)));
}

std::string with_rungs(const std::string& json, const RungForecast& forecast) {
  Json rungs{{"time_is", "simulated"},
             {"drawn_steps", forecast.drawn.size()},
             {"fitted_steps", forecast.fitted.size()},
             {"seen_steps", forecast.seen.size()},
             {"refused", refused(forecast.drawn) + refused(forecast.seen)},
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
