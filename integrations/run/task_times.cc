#include "integrations/run/task_times.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "planner/cost/copy_cost.h"
#include "planner/simulate/simulator.h"

namespace tidemark::run {
namespace {

/// Below it rounding to nanoseconds would show in a ratio.
constexpr double kWellAboveRounding = 10'000;

bool is_copy(const Task& task) {
  return task.kind == TaskKind::swap_out || task.kind == TaskKind::swap_in;
}

}  // namespace

TaskTimes::TaskTimes(const plan::RankPlan& rank, const Machine& machine)
    : rank_(rank), machine_(machine), prices_(rank.graph, machine) {
  // A plan file does not say the scale. Issuing a copy only adds, so it is the smallest ratio there is.
  std::optional<double> least;
  const Schedule& schedule = rank.program.schedule;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const TaskId task = id_of<TaskId>(t);
    if (schedule.tasks[t].lane != Lane::compute || is_copy(schedule.tasks[t])) continue;
    const double modelled = modelled_ns(task, planned_load(task), 1);  // scale_ is 1 so far
    if (modelled < kWellAboveRounding) continue;
    const double ratio = static_cast<double>(rank.program.estimate_ns[t]) / modelled;
    least = least ? std::min(*least, ratio) : ratio;
  }
  scale_ = least.value_or(1);
}

OpTemplateId TaskTimes::op_of(TaskId task) const {
  return rank_.program.schedule.tasks[row(task)].op_template;
}

double TaskTimes::planned_load(TaskId task) const {
  const SiteId site = rank_.program.schedule.tasks[row(task)].site;
  return site == kNone<SiteId> ? 1 : static_cast<double>(rank_.graph.sites[row(site)].fullest_load);
}

double TaskTimes::modelled_ns(TaskId task, double load, std::int32_t chunks) const {
  const double ns = prices_.chunk_ns(op_of(task), load, chunks);
  return rank_.program.schedule.tasks[row(task)].lane == Lane::compute ? scale_ * ns : ns;
}

std::int64_t TaskTimes::work_ns(TaskId task, const SiteLoads& loads, std::int32_t chunks) const {
  const std::int64_t estimate = rank_.program.estimate_ns[row(task)];
  const bool varies = prices_.varies(op_of(task)) && loads.own;
  if (chunks == 1 && !varies) return estimate;
  const double planned = planned_load(task);
  const double load =
      varies ? loads.time_load(rank_.figures.rank, rank_.program.schedule.tasks[row(task)].site) : planned;
  // What the estimate has besides, such as issuing copies, does not change.
  const double beside = static_cast<double>(estimate) - modelled_ns(task, planned, 1);
  return std::max<std::int64_t>(0, std::llround(beside + modelled_ns(task, load, chunks)));
}

std::int64_t TaskTimes::copy_ns(TaskId id, const SiteLoads& loads) const {
  const Task& task = rank_.program.schedule.tasks[row(id)];
  const StorageTemplate& storage = rank_.graph.template_of(task.storage);
  if (storage.routed_rows == 0 || storage.given_copies) return rank_.program.estimate_ns[row(id)];
  const Bytes bytes = storage_bytes(storage, loads.own(rank_.figures.rank, task.site));
  return (task.kind == TaskKind::swap_out ? cost::copy_out_cost(bytes, machine_) : cost::copy_in_cost(bytes, machine_))
      .link_ns;
}

std::vector<std::int64_t> TaskTimes::under(const SiteLoads& loads) const {
  const Schedule& schedule = rank_.program.schedule;
  std::vector<std::int64_t> durations(schedule.tasks.size());
  for (std::size_t t = 0; t < durations.size(); ++t) {
    const TaskId task = id_of<TaskId>(t);
    durations[t] = is_copy(schedule.tasks[t]) ? copy_ns(task, loads) : work_ns(task, loads, 1);
  }
  return durations;
}

Result<std::int64_t> modelled_step_ns(std::span<const plan::RankPlan> ranks, const Machine& machine,
                                      const SiteLoads& loads, bool matched) {
  std::vector<simulate::RankWork> work;
  for (const plan::RankPlan& rank : ranks) {
    work.push_back(simulate::work_of(rank.graph, rank.program.schedule, TaskTimes(rank, machine).under(loads)));
    if (!matched) work.back().messages.clear();
  }
  const Result<simulate::StepTiming> timing = simulate::simulate_step(work);
  if (!timing) return timing.error();
  return timing.value().step_ns;
}

}  // namespace tidemark::run
