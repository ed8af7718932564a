#include "integrations/run/worst_step.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/dynamic_region.h"
#include "core/row_sections.h"
#include "integrations/formats/unit_text.h"
#include "integrations/run/plan_ranks.h"
#include "integrations/run/task_times.h"
#include "planner/simulate/simulator.h"

namespace tidemark::run {
namespace {

using Json = nlohmann::ordered_json;

/// Longer is none in a plan file (integrations/formats/field_ranges.h); sums of several do not overflow.
constexpr double kMostNs = 1e15;

/// Tasks of sections take their time at the section's end; what is made again is not copied. Where all slots do for the
/// worst load, tasks and copies are as planned. Empty: a section cannot run in chunks, whatever the file says.
std::vector<std::int64_t> chunked_durations(const plan::RankPlan& rank, const TaskTimes& times, const SiteLoads& loads,
                                            const SiteLoad& worst) {
  const Program& program = rank.program;
  const Schedule& schedule = program.schedule;
  const std::vector<SiteLoad> planned = planned_loads(program);
  std::vector<std::int64_t> durations = times.under(loads);
  for (std::size_t t = 0; t < durations.size(); ++t) {
    const Task& task = schedule.tasks[t];
    const bool copies = task.kind == TaskKind::swap_out || task.kind == TaskKind::swap_in;
    if (copies && rank.graph.template_of(task.storage).routed_rows > 0 && !slots_hold(planned, task.site, worst))
      durations[t] = 0;
  }
  for (const RowSection& section : row_sections(program)) {
    if (slots_hold(planned, section.site, worst)) continue;
    if (!section.fault.empty()) return {};
    const std::int32_t chunks = least_chunks(program, section, worst, schedule.residencies[row(section.room)].bytes);
    if (chunks == 0) return {};
    for (const TaskId task : section.tasks) durations[row(task)] = 0;
    double end = 0;
    for (const TaskId task : section.once) end += static_cast<double>(times.work_ns(task, loads, 1));
    for (const TaskId task : section.loop) end += chunks * static_cast<double>(times.work_ns(task, loads, chunks));
    durations[row(section.end)] = std::llround(std::min(end, kMostNs));
  }
  return durations;
}

}  // namespace

Result<std::optional<WorstStep>> worst_step(const plan::PlanOutcome& plan, const Machine& machine,
                                            const graph_build::LoadShape& shape) {
  bool routes = false;
  for (const plan::RankPlan& rank : plan.ranks) {
    if (rank.figures.worst_load_f == 0) return std::optional<WorstStep>();
    routes = routes || !rank.program.routed.empty();
  }
  if (!routes) return std::optional<WorstStep>();
  const bool matched = simulated(plan).has_value();
  const SiteLoads loads{.own = [worst = shape.worst()](std::int32_t, SiteId) { return worst; }};
  std::vector<std::vector<std::int64_t>> durations(plan.ranks.size());
  tbb::parallel_for(std::size_t{0}, durations.size(), [&](std::size_t i) {
    durations[i] = chunked_durations(plan.ranks[i], TaskTimes(plan.ranks[i], machine), loads, shape.worst());
  });
  std::vector<simulate::RankWork> work;
  for (std::size_t i = 0; i < durations.size(); ++i) {
    const plan::RankPlan& rank = plan.ranks[i];
    if (durations[i].empty()) return std::optional<WorstStep>();
    work.push_back(simulate::work_of(rank.graph, rank.program.schedule, std::move(durations[i])));
    if (!matched) work.back().messages.clear();
  }
  const Result<simulate::StepTiming> chunked = simulate::simulate_step(work);
  if (!chunked) return chunked.error();
  const Result<std::int64_t> whole = modelled_step_ns(plan.ranks, machine, loads, matched);
  if (!whole) return whole.error();
  return std::optional(
      WorstStep{.load_f = shape.most_load(), .chunked_ns = chunked.value().step_ns, .whole_ns = whole.value()});
}

std::string worst_step_text(const WorstStep& worst) {
  return fmt::format(
      "\nAny expert load up to {:.4g} completes. With every layer and micro-batch at it the step takes {} in chunks, "
      "{} did "
      "all rows find room ({:+.1f} %; modelled)\n",
      worst.load_f, formats::duration_text(worst.chunked_ns), formats::duration_text(worst.whole_ns),
      100.0 * static_cast<double>(worst.chunked_ns - worst.whole_ns) /
          static_cast<double>(std::max<std::int64_t>(1, worst.whole_ns)));
}

std::string with_worst_step(const std::string& json, const WorstStep& worst) {
  Json object = Json::parse(json);
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
  object["worst_step"] = {
      {"load_f", worst.load_f}, {"chunked_ms", ms(worst.chunked_ns)}, {"whole_ms", ms(worst.whole_ns)}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidemark::run
