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

/// What the steps that completed took beyond their loads' own time: what memory costs.
struct Added {
  double mean_ms = 0, p99_ms = 0, worst_ms = 0;
};

std::optional<Added> added_of(const TraceOutcome& outcome) {
  std::vector<double> added;
  for (const TracedStep& step : outcome.steps)
    if (step.refused.empty()) added.push_back(to_ms(step.step_ns - step.as_planned_ns));
  if (added.empty()) return std::nullopt;
  std::sort(added.begin(), added.end());
  double sum = 0;
  for (const double ms : added) sum += ms;
  const auto nearest = static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(added.size()))) - 1;
  return Added{.mean_ms = sum / static_cast<double>(added.size()), .p99_ms = added[nearest], .worst_ms = added.back()};
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
      "device sim ({}), true sizes, loads of {}\n{} steps with the loads of {}: {} device-steps{}; loads up to {:.3f}, "
      "{:.4g} is the most there is\n",
      outcome.product, outcome.file, count_steps(outcome), whose, outcome.steps.size(),
      outcome.ask.rank ? fmt::format(" of rank {}", *outcome.ask.rank) : "", outcome.most_load,
      outcome.shape.most_load());
}

std::string time_text(const TraceOutcome& outcome) {
  std::string text = fmt::format("step as planned {} (simulated{})", formats::duration_text(outcome.planned_ns),
                                 outcome.matched ? "" : ", without waiting for messages of other ranks");
  if (const std::optional<Added> added = added_of(outcome)) {
    const double percent = 100.0 / std::max(1.0, to_ms(outcome.planned_ns));
    text += fmt::format(
        "; what exceeds the plan adds {:.1f} ms in the mean ({:+.3f} %), {:.1f} at p99, {:.1f} at worst, to what the "
        "loads "
        "take by themselves",
        added->mean_ms, added->mean_ms * percent, added->p99_ms, added->worst_ms);
  }
  return text + "\n";
}

std::string rung_text(const TraceOutcome& outcome) {
  const RungCounts rungs = rungs_of(outcome);
  return fmt::format(
      "above the plan: {} storages stood beside their slots, {} of them left device memory in between, {} sections ran "
      "in chunks (a layer forward or backward for one micro-batch)\n",
      rungs[0], rungs[1], rungs[2]);
}

/// Chunks last one step. Where they come in most, a plan for such loads is cheaper.
std::string advice_text(const TraceOutcome& outcome) {
  std::set<std::int64_t> in_chunks;
  for (const TracedStep& step : outcome.steps)
    if (step.rungs[static_cast<std::size_t>(Rung::chunks)] > 0) in_chunks.insert(step.step);
  const std::int64_t steps = count_steps(outcome);
  if (2 * std::ssize(in_chunks) < steps || in_chunks.empty()) return {};
  return fmt::format(
      "sections ran in chunks in {} of {} steps; `tidemark plan MODEL --imbalance-from {}` plans for such loads\n",
      in_chunks.size(), steps, outcome.file);
}

std::string verdict_text(const TraceOutcome& outcome) {
  if (outcome.ok()) return fmt::format("\nOK  every one of {} device-steps completed\n", outcome.steps.size());
  std::string text = "\nFAIL";
  if (const std::int64_t refused = outcome.refused(); refused > 0) {
    const auto first = std::ranges::find_if(outcome.steps, [](const TracedStep& s) { return !s.refused.empty(); });
    text += fmt::format("  {} of {} device-steps refused ({:.2f} %); the first, step {}, device {}: {}", refused,
                        outcome.steps.size(),
                        100.0 * static_cast<double>(refused) / static_cast<double>(outcome.steps.size()), first->step,
                        first->device, first->refused);
  }
  if (outcome.races() > 0) {
    const auto first = std::ranges::find_if(outcome.steps, [](const TracedStep& s) { return s.races > 0; });
    text += fmt::format("  {} races; the first, step {}, device {}: {}", outcome.races(), first->step, first->device,
                        first->first_race);
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

Json step_json(const TracedStep& step) {
  const bool completed = step.refused.empty();
  return {{"step", step.step},
          {"device", step.device},
          {"refused", completed ? Json() : Json(step.refused)},
          {"step_ms", completed ? Json(to_ms(step.step_ns)) : Json()},
          {"as_planned_ms", to_ms(step.as_planned_ns)},
          {"added_ms", completed ? Json(to_ms(step.step_ns - step.as_planned_ns)) : Json()},
          {"races", step.races},
          {"rungs", rungs_json(step.rungs)},
          {"peak_bytes", completed ? Json(step.peak_bytes) : Json()},
          {"beside_bytes", completed ? Json(step.beside_bytes) : Json()}};
}

}  // namespace

std::int64_t TraceOutcome::refused() const {
  return std::ranges::count_if(steps, [](const TracedStep& step) { return !step.refused.empty(); });
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
  return head_text(outcome) + time_text(outcome) + rung_text(outcome) + advice_text(outcome) + verdict_text(outcome);
}

std::string trace_json(const TraceOutcome& outcome) {
  const std::optional<Added> added = added_of(outcome);
  Json json{
      {"verdict", outcome.ok() ? "OK" : "FAIL"},
      {"product", outcome.product},
      {"time_is", "simulated"},
      {"messages_matched", outcome.matched},
      {"steps", outcome.steps.size()},
      {"refused", outcome.refused()},
      {"rungs", rungs_json(rungs_of(outcome))},
      {"planned_ms", to_ms(outcome.planned_ns)},
      {"added_ms", added ? Json{{"mean", added->mean_ms}, {"p99", added->p99_ms}, {"worst", added->worst_ms}} : Json()},
      {"most_load", outcome.most_load}};
  json["steps_detail"] = Json::array();
  for (const TracedStep& step : outcome.steps) json["steps_detail"].push_back(step_json(step));
  return json.dump(2) + "\n";
}

}  // namespace tidemark::run
