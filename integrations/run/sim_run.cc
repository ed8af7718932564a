#include "integrations/run/sim_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/dynamic_region.h"
#include "integrations/run/message_pairs.h"
#include "integrations/run/task_times.h"
#include "planner/schedule/scheduler.h"
#include "swap/step_run.h"

namespace tidemark::run {
namespace {

constexpr std::size_t kRaceTexts = 8;

std::string site_text(const Graph& graph, SiteId id) {
  if (id == kNone<SiteId>) return "";
  const Site& site = graph.sites[row(id)];
  std::string text = fmt::format("chunk {}", site.chunk);
  if (site.layer >= 0) text += fmt::format(", layer {}", site.layer);
  if (site.micro_batch >= 0) text += fmt::format(", micro-batch {}", site.micro_batch);
  return text;
}

std::string task_text(const plan::RankPlan& plan, TaskId id) {
  const Task& task = plan.program.schedule.tasks[row(id)];
  const Graph& graph = plan.graph;
  const bool copies = task.kind == TaskKind::swap_out || task.kind == TaskKind::swap_in;
  const std::string what =
      copies ? fmt::format("{} of {}", task.kind == TaskKind::swap_out ? "swap out" : "swap in",
                           graph.template_of(task.storage).name)
             : (task.kind == TaskKind::recompute ? "recompute " : "") + graph.op_templates[row(task.op_template)].name;
  const std::string where = site_text(graph, task.site);
  return where.empty() ? what : what + ", " + where;
}

/// Of copies whose times the source of the graph gives, by task.
std::vector<GivenCopyTime> given_copy_times(const plan::RankPlan& rank) {
  const Schedule& schedule = rank.program.schedule;
  std::vector<GivenCopyTime> times;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const Task& task = schedule.tasks[t];
    if (task.kind != TaskKind::swap_out && task.kind != TaskKind::swap_in) continue;
    const auto& given = rank.graph.template_of(task.storage).given_copies;
    if (!given) continue;
    times.resize(schedule.tasks.size());
    times[t] = {.bytes = rank.graph.storages[row(task.storage)].bytes,
                .ns = (task.kind == TaskKind::swap_out ? given->out : given->in).link};
  }
  return times;
}

}  // namespace

void charge_copies(plan::PlanOutcome& plan, const Machine& machine) {
  for (plan::RankPlan& rank : plan.ranks) {
    std::vector<std::int64_t>& estimates = rank.program.estimate_ns;
    estimates = schedule::charged_durations(rank.graph, rank.program.schedule, machine, std::move(estimates));
    rank.task_ns = estimates;
  }
}

swap::RunNames names_of(const plan::RankPlan& plan) {
  return {.task = [&plan](TaskId task) { return task_text(plan, task); },
          .site = [&plan](SiteId site) { return site_text(plan.graph, site); }};
}

SimOptions sim_options_for(const plan::RankPlan& rank, const Machine& machine) {
  SimOptions options{.rank = rank.program.schedule.rank,
                     .product = "simulated " + machine.name,
                     .capacity_bytes = 0,
                     .granule_bytes = kPlanGranule,
                     .alignment_bytes = machine.alignment_bytes,
                     .d2h = machine.d2h,
                     .h2d = machine.h2d};
  for (const Arena& arena : rank.program.layout.arenas) {
    const Bytes bytes = std::max(arena.capacity_bytes, arena.height_bytes);
    if (arena.space == MemorySpace::host)
      options.pinned_capacity_bytes += bytes;
    else
      options.capacity_bytes += round_up(bytes, kPlanGranule);
  }
  options.copies = given_copy_times(rank);
  return options;
}

std::int64_t copy_stall(const Schedule& schedule, std::span<const SimSpan> spans) {
  struct Span {
    std::int64_t start = -1, end = -1;
  };
  std::vector<Span> of_task(schedule.tasks.size());
  for (const SimSpan& span : spans) {
    if (span.id < 0 || static_cast<std::size_t>(span.id) >= of_task.size()) continue;
    Span& s = of_task[static_cast<std::size_t>(span.id)];
    s.start = s.start < 0 ? span.start_ns : std::min(s.start, span.start_ns);
    s.end = std::max(s.end, span.end_ns);
  }
  std::int64_t free = 0, stall = 0;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    if (schedule.tasks[t].lane != Lane::compute) continue;
    std::int64_t others = free, copies = free;
    for (const TaskId wait : schedule.waits_of(id_of<TaskId>(t))) {
      const Lane lane = schedule.tasks[row(wait)].lane;
      std::int64_t& end = lane == Lane::d2h || lane == Lane::h2d ? copies : others;
      end = std::max(end, of_task[row(wait)].end);
    }
    stall += std::max<std::int64_t>(0, copies - others);
    free = std::max(free, of_task[t].end);
  }
  return stall;
}

// --- SimRig
// -----------------------------------------------------------------------------------------------------------

SimRig::SimRig(const SimRunRequest& request)
    : request_(request), world_(std::make_unique<SimWorld>(request.schedule)) {}
SimRig::~SimRig() = default;

Result<std::unique_ptr<SimRig>> SimRig::open(const SimRunRequest& request) {
  if (request.match_messages)
    if (Status s = check_message_pairs(request.ranks); !s) return s.error();
  std::unique_ptr<SimRig> rig(new SimRig(request));
  for (const plan::RankPlan& plan : request.ranks)
    if (Status s = rig->open_rank(plan); !s) return s.error();
  return rig;
}

Status SimRig::open_rank(const plan::RankPlan& plan) {
  SimOptions options = sim_options_for(plan, request_.machine);
  options.check_races = request_.check_races;
  options.report_unwritten = true;
  options.record_timeline = request_.measure_stall;
  options.aliasing = request_.aliasing;
  options.faults = request_.faults;
  devices_.push_back(world_->make_device(options));
  const std::int32_t rank = plan.program.schedule.rank;
  swap::RunOptions run{.scale = request_.scale,
                       .verify = request_.verify,
                       .match_messages = request_.match_messages,
                       .names = names_of(plan)};
  run.agree = request_.agree;
  if (request_.load) run.load = [load = request_.load, rank](SiteId site) { return load(rank, site); };
  if (request_.load || request_.agree)
    run.work_ns = [times = TaskTimes(plan, request_.machine),
                   loads = SiteLoads{.own = request_.load, .fullest = request_.fullest}](
                      TaskId task, std::int32_t chunks) { return times.work_ns(task, loads, chunks); };
  Result<std::unique_ptr<swap::Executor>> executor =
      swap::Executor::open(plan.program, *devices_.back(), std::move(run));
  if (!executor) return executor.error();
  executors_.push_back(std::move(executor).value());
  return {};
}

Result<SimRun> SimRig::play() {
  for (const std::unique_ptr<SimDevice>& device : devices_) {
    device->clear_races();
    device->reset_statistics();
  }
  const std::int64_t started_ns = world_->now_ns();
  Result<std::vector<swap::RunReport>> reports = swap::run_step(executors_, [&] { return world_->run(); });
  if (!reports) return reports.error();
  SimRun run;
  for (std::size_t i = 0; i < request_.ranks.size(); ++i) {
    run.ranks.push_back(collect(i, started_ns, std::move(reports.value()[i])));
    run.step_ns = std::max(run.step_ns, run.ranks.back().finish_ns);
  }
  return run;
}

SimRankRun SimRig::collect(std::size_t rank, std::int64_t started_ns, swap::RunReport report) {
  SimDevice& device = *devices_[rank];
  SimRankRun run{.report = std::move(report),
                 .statistics = device.statistics(),
                 .traits = device.traits(),
                 .races = device.race_count()};
  run.finish_ns = std::max<std::int64_t>(0, run.statistics.last_end_ns - started_ns);
  run.report.step_ns = run.finish_ns;
  if (request_.measure_stall)
    run.copy_stall_ns = copy_stall(request_.ranks[rank].program.schedule, device.take_timeline());
  const std::vector<RaceReport> races = device.races();
  for (std::size_t i = 0; i < std::min(kRaceTexts, races.size()); ++i) run.race_texts.push_back(to_string(races[i]));
  return run;
}

void SimRig::close(SimRun& run) {
  executors_.clear();
  for (std::size_t i = 0; i < run.ranks.size(); ++i) {
    run.ranks[i].races = devices_[i]->race_count();  // giving back may race, too
    run.ranks[i].leaks = devices_[i]->leaks();
  }
}

Result<SimRun> run_on_sim(const SimRunRequest& request) {
  Result<std::unique_ptr<SimRig>> rig = SimRig::open(request);
  if (!rig) return rig.error();
  Result<SimRun> run = rig.value()->play();
  if (run) rig.value()->close(run.value());
  return run;
}

}  // namespace tidemark::run
