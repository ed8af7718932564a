#include "integrations/run/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "core/dynamic_region.h"
#include "device/ascend_device.h"
#include "device/cuda_device.h"
#include "device/host_device.h"
#include "integrations/formats/unit_text.h"
#include "integrations/run/host_room.h"
#include "integrations/run/load_change.h"
#include "integrations/run/plan_ranks.h"
#include "integrations/run/sim_run.h"
#include "swap/executor.h"

namespace tidemark::run {
namespace {

constexpr Bytes kPage = 4 * kKiB;
/// Exposed copies beyond the plan's, as a share of the step, that are worth a warning.
constexpr double kExposedShare = 0.01;

/// The same but for the last digits, which another processor may round otherwise.
bool close(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kShare = 1'000'000;
  return std::max(a, b) - std::min(a, b) <= 1 + std::max(a, b) / kShare;
}

/// What the plan lets a rank take of a device, scaled: its peak in whole granules, and of the dynamic region what
/// oversized storages may use.
Bytes allowed_bytes(const plan::RankPlan& plan, const RunAsk& ask, const DeviceTraits& traits,
                    const swap::RunReport& report) {
  const auto scaled = [&](Bytes bytes) { return (bytes + ask.scale - 1) / ask.scale; };
  const Bytes granule = std::max<Bytes>(1, traits.granule_bytes);
  Bytes allowed = scaled(plan.figures.peak_bytes - plan.figures.reserve_bytes);
  Bytes region = 0;
  std::int64_t arenas = 0;
  for (const Arena& arena : plan.program.layout.arenas) {
    if (arena.space != MemorySpace::device) continue;
    region += scaled(arena.dynamic_bytes) + granule;
    ++arenas;
  }
  // Every arena ends in a granule of its own.
  allowed =
      round_up(allowed + arenas * traits.tail_pad_bytes, granule) + std::max<std::int64_t>(0, arenas - 1) * granule;
  if (!ask.load) return allowed;
  return allowed + (traits.aliasing && traits.mapping ? report.extra_peak_bytes : region);
}

RankOutcome outcome_of(const plan::RankPlan& plan, swap::RunReport report,
                       const std::optional<simulate::StepTiming>& timing) {
  RankOutcome rank{.report = std::move(report),
                   .plan_peak_bytes = plan.figures.peak_bytes,
                   .reserve_bytes = plan.figures.reserve_bytes,
                   .budget_bytes = plan.figures.budget_bytes};
  if (timing) {
    const simulate::Timeline& timeline = timing->ranks[static_cast<std::size_t>(plan.figures.rank)];
    rank.plan_step_ns = timeline.finish_ns;
    rank.plan_copy_stall_ns = timeline.copy_wait_ns;
  }
  return rank;
}

/// Everything that makes the answer no.
void judge(RunOutcome& run) {
  for (const RankOutcome& rank : run.ranks) {
    const swap::RunReport& r = rank.report;
    const auto say = [&](std::string text) {
      run.problems.push_back(fmt::format("rank {}: {}", r.rank, std::move(text)));
    };
    if (rank.races > 0)
      say(fmt::format("{} races, work that touches the same bytes in no certain order; the first: {}", rank.races,
                      rank.race_texts.empty() ? "not recorded" : rank.race_texts.front()));
    if (r.mismatches > 0) say(fmt::format("{} ranges held wrong bytes; the first: {}", r.mismatches, r.first_mismatch));
    if (rank.taken_bytes > rank.allowed_bytes)
      say(fmt::format("took {} of the device, the plan allows {} in whole granules", format_bytes(rank.taken_bytes),
                      format_bytes(rank.allowed_bytes)));
    // Oversized storages take of the dynamic region, which lies above the plan's figure and below the budget.
    const Bytes planned = (rank.plan_peak_bytes - rank.reserve_bytes + run.ask.scale - 1) / run.ask.scale;
    const Bytes budget = (rank.budget_bytes - rank.reserve_bytes + run.ask.scale - 1) / run.ask.scale;
    if (r.peak_bytes - r.extra_peak_bytes > planned || r.peak_bytes > std::max(planned, budget))
      say(fmt::format("touched bytes up to {}, the plan's peak is {}", format_bytes(r.peak_bytes),
                      format_bytes(planned)));
  }
}

// --- sim
// --------------------------------------------------------------------------------------------------------------

/// Copies that the plan had hidden and the run did not.
void warn_of_stall(RankOutcome& rank) {
  const std::int64_t exposed = rank.copy_stall_ns - rank.plan_copy_stall_ns.value_or(0);
  if (static_cast<double>(exposed) <= kExposedShare * static_cast<double>(rank.report.step_ns)) return;
  rank.report.warnings.push_back({.kind = swap::RunWarning::Kind::copies_exposed,
                                  .text = "the compute lane stood still for copies that the plan hides (simulated; "
                                          "column copy stall)"});
}

Status add_schedule(const SimRunRequest& request, const std::optional<simulate::StepTiming>& timing, bool first,
                    RunOutcome& run) {
  Result<SimRun> made = run_on_sim(request);
  if (!made) return made.error();
  if (first) run.step_ns = made.value().step_ns;
  for (std::size_t i = 0; i < request.ranks.size(); ++i) {
    SimRankRun& sim = made.value().ranks[i];
    if (first) {
      run.ranks.push_back(outcome_of(request.ranks[i], sim.report, timing));
      RankOutcome& rank = run.ranks.back();
      rank.taken_bytes = std::max(sim.report.mapped_bytes, sim.statistics.peak_device_bytes);
      rank.allowed_bytes = allowed_bytes(request.ranks[i], run.ask, sim.traits, sim.report);
      rank.copy_stall_ns = sim.copy_stall_ns;
      if (run.matched) warn_of_stall(rank);  // alone, a rank keeps another time than the plan's
    } else {
      run.ranks[i].report.mismatches += sim.report.mismatches;
      if (run.ranks[i].report.first_mismatch.empty()) run.ranks[i].report.first_mismatch = sim.report.first_mismatch;
    }
    run.ranks[i].races += sim.races;
    for (std::string& text : sim.race_texts) run.ranks[i].race_texts.push_back(std::move(text));
    if (!sim.leaks.empty())
      run.problems.push_back(fmt::format("rank {}: not given back at the end: {}", sim.report.rank, sim.leaks));
  }
  return {};
}

Result<RunOutcome> run_sim(const plan::PlanOutcome& plan, const Machine& machine, const RunAsk& ask) {
  RunOutcome run{.ask = ask,
                 .device = "sim",
                 .product = "simulated " + machine.name,
                 .simulated = true,
                 .plan_step_ns = plan.step.step_ns};
  const std::optional<simulate::StepTiming> timing = simulated(plan);
  run.matched = !ask.rank && timing.has_value();
  // The figure is compared with what runs, so it must be of these programs.
  if (timing && !close(timing->step_ns, plan.step.step_ns))
    return bad_input(
        fmt::format("--device sim: the plan's step of {} ns does not follow from its programs, which take {} ns in its "
                    "simulator; was the file edited? plan again",
                    plan.step.step_ns, timing->step_ns));
  std::vector<std::vector<graph_build::BuiltLoad>> loads(plan.ranks.size());
  SimRunRequest request{.ranks = ranks_of(plan, ask.rank),
                        .machine = machine,
                        .scale = ask.scale,
                        .verify = ask.verify,
                        .match_messages = run.matched};
  if (ask.load) {
    for (const plan::RankPlan& rank : plan.ranks) {
      const auto number = static_cast<std::size_t>(rank.figures.rank);
      loads.resize(std::max(loads.size(), number + 1));
      loads[number] = loads_of(rank, *ask.load);
    }
    request.load = [&](std::int32_t rank, SiteId site) { return loads[static_cast<std::size_t>(rank)][row(site)].own; };
    request.fullest = [&](std::int32_t rank, SiteId site) {
      return loads[static_cast<std::size_t>(rank)][row(site)].fullest;
    };
  }
  for (std::int64_t k = 0; k < ask.schedules; ++k) {
    request.schedule.seed = ask.seed + static_cast<std::uint64_t>(k);
    request.measure_stall = k == 0;
    if (Status s = add_schedule(request, timing, k == 0, run); !s) return s.error();
  }
  judge(run);
  return run;
}

// --- real memory
// ------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<Device>> open_device(const plan::RankPlan& rank, const RunAsk& ask) {
  if (ask.device == RunDevice::cuda) return open_cuda_device({});
  if (ask.device == RunDevice::ascend) return open_ascend_device({});
  HostDeviceOptions options{.capacity_bytes = 0, .granule_bytes = std::max(kPage, kPlanGranule / ask.scale)};
  for (const Arena& arena : rank.program.layout.arenas)
    if (arena.space == MemorySpace::device)
      options.capacity_bytes +=
          round_up((std::max(arena.capacity_bytes, arena.height_bytes) + ask.scale - 1) / ask.scale,
                   options.granule_bytes) +
          options.granule_bytes;
  return open_host_device(options);
}

Result<swap::RunReport> run_alone(const plan::RankPlan& rank, const RunAsk& ask, Device& device) {
  swap::RunOptions options{.scale = ask.scale, .verify = ask.verify, .names = names_of(rank)};
  if (ask.load) options.load = [loads = loads_of(rank, *ask.load)](SiteId site) { return loads[row(site)].own; };
  Result<std::unique_ptr<swap::Executor>> executor = swap::Executor::open(rank.program, device, std::move(options));
  if (!executor) return executor.error();
  if (Status s = executor.value()->issue(); !s) return s.error();
  return executor.value()->finish();
}

Result<RunOutcome> run_real(const plan::PlanOutcome& plan, const RunAsk& ask) {
  if (ask.schedules != 1 || ask.seed != 0)
    return bad_input("--seed, --schedules: only a simulated device has schedules");
  if (ask.device == RunDevice::host)
    if (Status room = check_host_room(ranks_of(plan, ask.rank), ask.scale, host_room()); !room) return room.error();
  RunOutcome run{.ask = ask, .plan_step_ns = plan.step.step_ns};
  for (const plan::RankPlan& rank : ranks_of(plan, ask.rank)) {
    Result<std::unique_ptr<Device>> device = open_device(rank, ask);
    if (!device) return device.error();
    run.device = device.value()->traits().name;
    run.product = device.value()->traits().product;
    Result<swap::RunReport> report = run_alone(rank, ask, *device.value());
    if (!report) return report.error();
    run.ranks.push_back(outcome_of(rank, std::move(report).value(), std::nullopt));
    RankOutcome& outcome = run.ranks.back();
    outcome.taken_bytes = outcome.report.mapped_bytes;
    outcome.allowed_bytes = allowed_bytes(rank, ask, device.value()->traits(), outcome.report);
    run.step_ns = std::max(run.step_ns, run.ranks.back().report.step_ns);
  }
  judge(run);
  return run;
}

}  // namespace

Result<RunOutcome> run_plan(plan::PlanOutcome plan, const Machine& machine, const RunAsk& ask) {
  const std::span<const plan::RankPlan> ranks = ranks_of(plan, ask.rank);
  if (ranks.empty()) return no_such_rank(plan, ask.rank);
  if (ask.load)
    if (Status s = check_load_change(ranks, *ask.load); !s) return s.error();
  if (ask.device != RunDevice::sim) return run_real(plan, ask);
  charge_copies(plan, machine);
  return run_sim(plan, machine, ask);
}

}  // namespace tidemark::run
