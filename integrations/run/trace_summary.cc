#include "integrations/run/trace_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "integrations/formats/file.h"
#include "integrations/formats/unit_text.h"
#include "integrations/run/plan_ranks.h"

namespace tidemark::run {
namespace {

using Json = nlohmann::ordered_json;

double to_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

struct Times {
  double mean_ms = 0, p99_ms = 0, worst_ms = 0;
};

/// REQUIRES: not empty.
Times times_of(std::vector<double> ms) {
  std::ranges::sort(ms);
  double sum = 0;
  for (const double one : ms) sum += one;
  const auto nearest = static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(ms.size()))) - 1;
  return {.mean_ms = sum / static_cast<double>(ms.size()), .p99_ms = ms[nearest], .worst_ms = ms.back()};
}

/// Of the device-steps that completed.
struct PlayedTimes {
  Times step;
  Times loads;  ///< these loads by themselves
  Times added;  ///< step less loads: what memory costs
};

std::optional<PlayedTimes> times_of(const TraceOutcome& outcome) {
  std::vector<double> step, loads, added;
  for (const TracedStep& one : outcome.steps) {
    if (!one.refused.empty()) continue;
    step.push_back(to_ms(one.step_ns));
    loads.push_back(to_ms(one.loads_ns));
    added.push_back(to_ms(one.step_ns - one.loads_ns));
  }
  if (step.empty()) return std::nullopt;
  return PlayedTimes{
      .step = times_of(std::move(step)), .loads = times_of(std::move(loads)), .added = times_of(std::move(added))};
}

RungCounts rungs_of(const TraceOutcome& outcome) {
  RungCounts rungs{};
  for (const TracedStep& step : outcome.steps)
    for (std::size_t i = 0; i < rungs.size(); ++i) rungs[i] += step.rungs[i];
  return rungs;
}

std::int64_t count_steps(const TraceOutcome& outcome) {
  std::set<std::int64_t> steps;
  for (const TracedStep& step : outcome.steps) steps.insert(step.step);
  return std::ssize(steps);
}

std::string head_text(const TraceOutcome& outcome) {
  const std::string whose = outcome.ask.device
                                ? fmt::format("device {}", *outcome.ask.device)
                                : fmt::format("each of {} devices of the expert group", outcome.shape.devices);
  return fmt::format(
      "device sim ({}), true sizes, loads of {}\n{} with the loads of {}: {}{}; loads up to {:.3f}, "
      "{:.4g} is the most there is\n",
      outcome.product, outcome.file, formats::counted_text(count_steps(outcome), "step"), whose,
      formats::counted_text(std::ssize(outcome.steps), "device-step"),
      outcome.ask.rank ? fmt::format(" of rank {}", *outcome.ask.rank) : "", outcome.most_load,
      outcome.shape.most_load());
}

std::string time_text(const TraceOutcome& outcome) {
  std::string text = fmt::format("step as planned {} (simulated{})\n", formats::duration_text(outcome.planned_ns),
                                 outcome.matched ? "" : ", without waiting for messages of other ranks");
  const std::optional<PlayedTimes> times = times_of(outcome);
  if (!times) return text;
  const auto shown = [](double ms) { return formats::duration_text(std::llround(ms * 1e6)); };
  const double percent = 100.0 / std::max(1.0, to_ms(outcome.planned_ns));
  return text + fmt::format(
                    "steps take {} in the mean, {} at worst (simulated), of which these loads by themselves {} in the "
                    "mean (modelled);\nwhat exceeds the plan adds {:.1f} ms in the mean ({:+.3f} % of the step as "
                    "planned), {:.1f} at p99, {:.1f} at worst\n",
                    shown(times->step.mean_ms), shown(times->step.worst_ms), shown(times->loads.mean_ms),
                    times->added.mean_ms, times->added.mean_ms * percent, times->added.p99_ms, times->added.worst_ms);
}

std::string rung_text(const TraceOutcome& outcome) {
  const RungCounts rungs = rungs_of(outcome);
  return fmt::format(
      "above the plan: {} storages stood beside their slots, {} of them left device memory in between, {} sections ran "
      "in chunks (a layer forward or backward for one micro-batch)\n",
      rungs[0], rungs[1], rungs[2]);
}

/// Chunks last one step. Where they come in most, a plan for higher loads is cheaper: counts that the plan was made
/// from already say no more, so that a load above the planned one is the other way.
std::string chunk_text(const TraceOutcome& outcome) {
  std::set<std::int64_t> in_chunks;
  for (const TracedStep& step : outcome.steps)
    if (step.rungs[static_cast<std::size_t>(Rung::chunks)] > 0) in_chunks.insert(step.step);
  if (in_chunks.empty()) return {};
  const std::int64_t steps = count_steps(outcome);
  std::string text =
      fmt::format("sections ran in chunks in {} of {}", in_chunks.size(), formats::counted_text(steps, "step"));
  if (2 * std::ssize(in_chunks) >= steps)
    text += fmt::format(
        "; plan for higher loads: `tidemark plan MODEL --imbalance-from {}`, or, of a plan from these counts, "
        "`--imbalance F` with F above {:.4g}",
        outcome.file, outcome.most_planned_load);
  return text + "\n";
}

std::string refusal_text(const TraceOutcome& outcome) {
  const std::int64_t refused = outcome.refused(), after = outcome.refused_after();
  if (refused == 0) return {};
  std::string text = fmt::format("  {} of {} refused ({:.2f} %)", refused,
                                 formats::counted_text(std::ssize(outcome.steps), "device-step"),
                                 100.0 * static_cast<double>(refused) / static_cast<double>(outcome.steps.size()));
  if (after > 0)
    text += fmt::format(", {} by {}, {} because another device of the group was", refused - after,
                        refused - after == 1 ? "itself" : "themselves", after);
  const auto first = std::ranges::find_if(
      outcome.steps, [](const TracedStep& s) { return !s.refused.empty() && !s.refused_after.has_value(); });
  return text + fmt::format("; the first, step {}, device {}: {}", first->step, first->device, first->refused);
}

std::string verdict_text(const TraceOutcome& outcome) {
  if (outcome.ok())
    return fmt::format("\nOK  every one of {} completed\n",
                       formats::counted_text(std::ssize(outcome.steps), "device-step"));
  std::string text = "\nFAIL" + refusal_text(outcome);
  if (outcome.races() > 0) {
    const auto first = std::ranges::find_if(outcome.steps, [](const TracedStep& s) { return s.races > 0; });
    text += fmt::format("  {}; the first, step {}, device {}: {}", formats::counted_text(outcome.races(), "race"),
                        first->step, first->device, first->first_race);
  }
  return text + "\n";
}

double fullest_mean(const StepLoads& loads, const graph_build::LoadShape& shape) {
  double sum = 0;
  for (const std::int64_t layer : shape.layers)
    for (std::int64_t micro_batch = 0; micro_batch < shape.micro_batches; ++micro_batch)
      sum += loads.fullest(layer, micro_batch);
  return sum / static_cast<double>(std::ssize(shape.layers) * shape.micro_batches);
}

Json rungs_json(const RungCounts& rungs) {
  Json json = Json::object();
  for (std::size_t i = 0; i < rungs.size(); ++i) json[kRungNames[i]] = rungs[i];
  return json;
}

Json times_json(const Times& times) {
  return {{"mean", times.mean_ms}, {"p99", times.p99_ms}, {"worst", times.worst_ms}};
}

Json step_json(const TracedStep& step) {
  const bool completed = step.refused.empty();
  return {{"step", step.step},
          {"device", step.device},
          {"refused", completed ? Json() : Json(step.refused)},
          {"refused_after", step.refused_after ? Json(*step.refused_after) : Json()},
          {"step_ms", completed ? Json(to_ms(step.step_ns)) : Json()},
          {"loads_ms", to_ms(step.loads_ns)},
          {"added_ms", completed ? Json(to_ms(step.step_ns - step.loads_ns)) : Json()},
          {"races", step.races},
          {"rungs", rungs_json(step.rungs)},
          {"peak_bytes", completed ? Json(step.peak_bytes) : Json()},
          {"beside_bytes", completed ? Json(step.beside_bytes) : Json()}};
}

}  // namespace

std::int64_t TraceOutcome::refused() const {
  return std::ranges::count_if(steps, [](const TracedStep& step) { return !step.refused.empty(); });
}

std::int64_t TraceOutcome::refused_after() const {
  return std::ranges::count_if(steps, [](const TracedStep& step) { return step.refused_after.has_value(); });
}

std::int64_t TraceOutcome::races() const {
  std::int64_t races = 0;
  for (const TracedStep& step : steps) races += step.races;
  return races;
}

Result<TraceOutcome> play_trace(const plan::PlanOutcome& plan, const Machine& machine,
                                const graph_build::LoadShape& shape, const TraceAsk& ask,
                                const std::filesystem::path& file) {
  Result<std::ifstream> in = formats::open_file(file);
  if (!in) return in.error();
  formats::ExpertCountReader reader(in.value(), file.string());
  Result<std::optional<formats::CountedStep>> step = reader.next();
  if (!step) return step.error();
  Result<TraceRun> run = TraceRun::open(plan, machine, shape, ask);
  if (!run) return run.error();
  TraceOutcome outcome{.file = file.string(),
                       .product = "simulated " + machine.name,
                       .ask = ask,
                       .shape = shape,
                       .matched = run.value().matched(),
                       .planned_ns = run.value().planned_ns()};
  for (const plan::RankPlan& rank : ranks_of(plan, ask.rank)) {
    const double load = rank.figures.load;
    outcome.least_planned_load = outcome.budget_bytes == 0 ? load : std::min(outcome.least_planned_load, load);
    outcome.most_planned_load = std::max(outcome.most_planned_load, load);
    outcome.budget_bytes = std::max(outcome.budget_bytes, rank.figures.budget_bytes);
  }
  while (step.value()) {
    const Result<StepLoads> loads = StepLoads::of(*step.value(), shape, reader);
    if (!loads) return loads.error();
    outcome.loads.push_back(
        {.step = step.value()->step, .most = loads.value().most(), .fullest_mean = fullest_mean(loads.value(), shape)});
    outcome.most_load = std::max(outcome.most_load, loads.value().most());
    Result<std::vector<TracedStep>> played = run.value().play(step.value()->step, loads.value());
    if (!played) return played.error();
    for (TracedStep& one : played.value()) outcome.steps.push_back(std::move(one));
    step = reader.next();
    if (!step) return step.error();
  }
  return outcome;
}

std::string trace_text(const TraceOutcome& outcome) {
  return head_text(outcome) + time_text(outcome) + rung_text(outcome) + chunk_text(outcome) + verdict_text(outcome);
}

std::string trace_json(const TraceOutcome& outcome) {
  const std::optional<PlayedTimes> times = times_of(outcome);
  Json json{{"verdict", outcome.ok() ? "OK" : "FAIL"},
            {"product", outcome.product},
            {"time_is", "simulated"},
            {"messages_matched", outcome.matched},
            {"steps", outcome.steps.size()},
            {"refused", outcome.refused()},
            {"refused_after", outcome.refused_after()},
            {"rungs", rungs_json(rungs_of(outcome))},
            {"planned_ms", to_ms(outcome.planned_ns)},
            {"step_ms", times ? times_json(times->step) : Json()},
            {"loads_ms", times ? times_json(times->loads) : Json()},
            {"added_ms", times ? times_json(times->added) : Json()},
            {"most_load", outcome.most_load}};
  json["steps_detail"] = Json::array();
  for (const TracedStep& step : outcome.steps) json["steps_detail"].push_back(step_json(step));
  return json.dump(2) + "\n";
}

}  // namespace tidemark::run
