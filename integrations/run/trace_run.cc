#include "integrations/run/trace_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "integrations/run/group_agreement.h"
#include "integrations/run/plan_ranks.h"
#include "integrations/run/sim_run.h"
#include "integrations/run/task_times.h"

namespace tidemark::run {
namespace {

void count(const swap::RunReport& report, RungCounts& rungs) {
  rungs[static_cast<std::size_t>(Rung::room)] += std::ssize(report.oversized);
  rungs[static_cast<std::size_t>(Rung::spill)] += std::ssize(report.spills);
  rungs[static_cast<std::size_t>(Rung::chunks)] += std::ssize(report.sections);
}

/// The devices of one column of the pipeline, which play a step under the loads they are given.
class Player {
 public:
  Player(const plan::PlanOutcome& plan, const Machine& machine, const TraceAsk& ask, bool matched)
      : ranks_(ranks_of(plan, ask.rank)), machine_(machine), check_races_(ask.check_races), matched_(matched) {
    for (const plan::RankPlan& rank : ranks_) {
      const auto number = static_cast<std::size_t>(rank.figures.rank);
      of_rank_.resize(std::max(of_rank_.size(), number + 1), nullptr);
      of_rank_[number] = &rank;
    }
  }

  /// `loads`: nullptr: as planned. `group`: of the devices that play this step; nullptr: this one alone. After a
  /// refusal the player plays no more.
  [[nodiscard]] Result<TracedStep> play(const StepLoads* loads, std::int64_t device, GroupAgreement* group) {
    loads_ = loads;
    device_ = device;
    group_ = group;
    follows_ = false;
    TracedStep traced{.device = device};
    if (loads != nullptr) {
      const Result<std::int64_t> by_themselves = modelled_step_ns(ranks_, machine_, site_loads(), matched_);
      if (!by_themselves) return by_themselves.error();
      traced.loads_ns = by_themselves.value();
    }
    const Result<SimRun> run = play_step();
    if (!run && run.error().code != Error::Code::infeasible) return run.error();
    if (!run) {
      traced.refused = run.error().message;
      return traced;
    }
    traced.step_ns = run.value().step_ns;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const SimRankRun& rank = run.value().ranks[i];
      traced.peak_bytes = std::max(traced.peak_bytes, ranks_[i].figures.reserve_bytes + rank.report.peak_bytes);
      traced.beside_bytes = std::max(traced.beside_bytes, rank.report.extra_peak_bytes);
      traced.races += rank.races;
      if (traced.first_race.empty() && !rank.race_texts.empty()) traced.first_race = rank.race_texts.front();
      count(rank.report, traced.rungs);
    }
    return traced;
  }

  /// The group ended the step that was refused last, or did not agree to what this device could do.
  [[nodiscard]] bool follows() const { return follows_; }

 private:
  [[nodiscard]] SiteLoads site_loads() const {
    const auto site_of = [this](std::int32_t rank, SiteId id) -> const Site& {
      return of_rank_[static_cast<std::size_t>(rank)]->graph.sites[row(id)];
    };
    return {.own =
                [this, site_of](std::int32_t rank, SiteId id) {
                  const Site& site = site_of(rank, id);
                  return loads_ == nullptr ? site.loads() : loads_->site(site.layer, site.micro_batch, device_);
                },
            .fullest =
                [this, site_of](std::int32_t rank, SiteId id) {
                  const Site& site = site_of(rank, id);
                  return loads_ == nullptr ? static_cast<double>(site.fullest_load)
                                           : loads_->fullest(site.layer, site.micro_batch);
                }};
  }
  [[nodiscard]] Result<SimRun> play_step() {
    if (rig_ == nullptr) {
      const SiteLoads loads = site_loads();
      Result<std::unique_ptr<SimRig>> rig = SimRig::open({.ranks = ranks_,
                                                          .machine = machine_,
                                                          .check_races = check_races_,
                                                          .match_messages = matched_,
                                                          .measure_stall = false,
                                                          .load = loads.own,
                                                          .fullest = loads.fullest,
                                                          .agree = agree()});
      if (!rig) return rig.error();
      rig_ = std::move(rig).value();
    }
    return rig_->play();
  }
  [[nodiscard]] swap::Agree agree() {
    return [this](std::int32_t group, std::int32_t section, swap::ChunkWish wish) -> Result<std::int32_t> {
      if (group_ == nullptr) return wish.wanted ? wish.chunks : 1;
      const Result<std::int32_t> agreed = group_->ask(static_cast<std::int32_t>(device_), group, section, wish);
      follows_ = !agreed || (wish.wanted && wish.chunks > 0 && agreed.value() < wish.chunks);
      return agreed;
    };
  }

  std::span<const plan::RankPlan> ranks_;
  std::vector<const plan::RankPlan*> of_rank_;
  const Machine& machine_;
  bool check_races_ = false, matched_ = false;
  const StepLoads* loads_ = nullptr;
  std::int64_t device_ = 0;
  GroupAgreement* group_ = nullptr;
  bool follows_ = false;
  std::unique_ptr<SimRig> rig_;
};

}  // namespace

std::vector<TracedStep> with_causes(std::vector<PlayedDevice> devices) {
  const auto cause = std::ranges::find_if(
      devices, [](const PlayedDevice& one) { return !one.traced.refused.empty() && !one.follows; });
  std::vector<TracedStep> steps;
  for (PlayedDevice& one : devices) {
    if (one.follows && !one.traced.refused.empty() && cause != devices.end()) {
      one.traced.refused_after = cause->traced.device;
      one.traced.refused = fmt::format("device {} was refused, and no device of the group goes on without the others",
                                       cause->traced.device);
    }
    steps.push_back(std::move(one.traced));
  }
  return steps;
}

/// As many as play at a time: opening one costs as much as a step.
class TraceRun::Players {
 public:
  Players(const plan::PlanOutcome& plan, const Machine& machine, const TraceAsk& ask, bool matched)
      : plan_(plan), machine_(machine), ask_(ask), matched_(matched) {}

  [[nodiscard]] Result<PlayedDevice> play(const StepLoads* loads, std::int64_t device, GroupAgreement* group) {
    std::unique_ptr<Player> player = take();
    Result<TracedStep> traced = player->play(loads, device, group);
    if (!traced || !traced.value().refused.empty()) {
      if (group != nullptr) group->leave(static_cast<std::int32_t>(device));
      if (!traced) return traced.error();
      return PlayedDevice{.traced = std::move(traced).value(), .follows = player->follows()};
    }
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(player));
    return PlayedDevice{.traced = std::move(traced).value()};
  }

 private:
  [[nodiscard]] std::unique_ptr<Player> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Player>(plan_, machine_, ask_, matched_);
    std::unique_ptr<Player> player = std::move(idle_.back());
    idle_.pop_back();
    return player;
  }

  const plan::PlanOutcome& plan_;
  const Machine& machine_;
  TraceAsk ask_;
  bool matched_ = false;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Player>> idle_;
};

TraceRun::TraceRun(std::unique_ptr<Players> players) : players_(std::move(players)) {}
TraceRun::~TraceRun() = default;
TraceRun::TraceRun(TraceRun&&) noexcept = default;
TraceRun& TraceRun::operator=(TraceRun&&) noexcept = default;

Result<TraceRun> TraceRun::open(const plan::PlanOutcome& plan, const Machine& machine,
                                const graph_build::LoadShape& shape, const TraceAsk& ask) {
  if (ranks_of(plan, ask.rank).empty()) return no_such_rank(plan, ask.rank);
  const bool matched = !ask.rank && simulated(plan).has_value();
  TraceRun run(std::make_unique<Players>(plan, machine, ask, matched));
  run.matched_ = matched;
  run.first_device_ = ask.device.value_or(0);
  run.device_count_ = ask.device ? 1 : shape.devices;
  const Result<PlayedDevice> planned = run.players_->play(nullptr, 0, nullptr);
  if (!planned) return planned.error();
  const TracedStep& step = planned.value().traced;
  if (!step.refused.empty()) return infeasible(step.refused);
  run.planned_ns_ = step.step_ns;
  return run;
}

/// Each device on a thread of its own: they wait for each other at every section.
Result<std::vector<TracedStep>> TraceRun::play(std::int64_t step, const StepLoads& loads) {
  std::vector<Result<PlayedDevice>> played(static_cast<std::size_t>(device_count_), PlayedDevice{});
  GroupAgreement group(static_cast<std::int32_t>(device_count_));
  {
    std::vector<std::jthread> devices;
    for (std::int64_t i = 0; i < device_count_; ++i)
      devices.emplace_back([&, i] {
        played[static_cast<std::size_t>(i)] =
            players_->play(&loads, first_device_ + i, device_count_ > 1 ? &group : nullptr);
      });
  }
  std::vector<PlayedDevice> devices;
  for (Result<PlayedDevice>& one : played) {
    if (!one) return one.error();
    devices.push_back(std::move(one).value());
    devices.back().traced.step = step;
  }
  return with_causes(std::move(devices));
}

}  // namespace tidemark::run
