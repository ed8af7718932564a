#include "integrations/run/sim_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/dynamic_region.h"
#include "integrations/run/message_pairs.h"
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

/// Devices and executors of one step; executors go before their devices.
struct Rig {
  std::unique_ptr<SimWorld> world;
  std::vector<std::unique_ptr<SimDevice>> devices;
  std::vector<std::unique_ptr<swap::Executor>> executors;
};

Status open_rank(const SimRunRequest& request, const plan::RankPlan& plan, Rig& rig) {
  SimOptions options = sim_options_for(plan, request.machine);
  options.check_races = request.check_races;
  options.report_unwritten = true;
  options.record_timeline = request.measure_stall;
  options.faults = request.faults;
  rig.devices.push_back(rig.world->make_device(options));
  const std::int32_t rank = plan.program.schedule.rank;
  swap::RunOptions run{.scale = request.scale,
                       .verify = request.verify,
                       .match_messages = request.match_messages,
                       .names = names_of(plan)};
  run.agree = request.agree;
  if (request.load) run.load = [load = request.load, rank](SiteId site) { return load(rank, site); };
  Result<std::unique_ptr<swap::Executor>> executor =
      swap::Executor::open(plan.program, *rig.devices.back(), std::move(run));
  if (!executor) return executor.error();
  rig.executors.push_back(std::move(executor).value());
  return {};
}

SimRankRun collect(const SimRunRequest& request, const plan::RankPlan& plan, SimDevice& device,
                   swap::RunReport report) {
  SimRankRun run{.report = std::move(report),
                 .statistics = device.statistics(),
                 .traits = device.traits(),
                 .races = device.race_count()};
  run.finish_ns = std::max<std::int64_t>(0, run.statistics.last_end_ns);
  run.report.step_ns = run.finish_ns;
  if (request.measure_stall) run.copy_stall_ns = copy_stall(plan.program.schedule, device.take_timeline());
  const std::vector<RaceReport> races = device.races();
  for (std::size_t i = 0; i < std::min(kRaceTexts, races.size()); ++i) run.race_texts.push_back(to_string(races[i]));
  return run;
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

Result<SimRun> run_on_sim(const SimRunRequest& request) {
  if (request.match_messages)
    if (Status s = check_message_pairs(request.ranks); !s) return s.error();
  Rig rig{.world = std::make_unique<SimWorld>(request.schedule)};
  for (const plan::RankPlan& plan : request.ranks)
    if (Status s = open_rank(request, plan, rig); !s) return s.error();
  Result<std::vector<swap::RunReport>> reports = swap::run_step(rig.executors, [&] { return rig.world->run(); });
  if (!reports) return reports.error();
  SimRun run;
  for (std::size_t i = 0; i < request.ranks.size(); ++i) {
    run.ranks.push_back(collect(request, request.ranks[i], *rig.devices[i], std::move(reports.value()[i])));
    run.step_ns = std::max(run.step_ns, run.ranks.back().finish_ns);
  }
  rig.executors.clear();
  for (std::size_t i = 0; i < request.ranks.size(); ++i) {
    SimRankRun& rank = run.ranks[i];
    rank.races = rig.devices[i]->race_count();  // giving back may race, too
    rank.leaks = rig.devices[i]->leaks();
  }
  return run;
}

}  // namespace tidemark::run
