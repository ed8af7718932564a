#include "planner/planner.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "planner/built_plan.h"
#include "planner/cost/op_prices.h"
#include "planner/graph_build/device_rules.h"
#include "planner/graph_build/liveness.h"
#include "planner/graph_build/load_shape.h"
#include "planner/graph_build/site_loads.h"
#include "planner/graph_build/step_graph.h"
#include "planner/joint_choice.h"
#include "planner/planned_load.h"
#include "planner/rank_planner.h"
#include "planner/schedule/scheduler.h"
#include "planner/step_choice.h"
#include "planner/step_relaxation.h"
#include "planner/threads/parallel.h"

namespace tidemark::plan {
namespace {

/// Of what is added anywhere the step is taken to pay at least this part: weights hold near the plan that all ranks
/// have together, and what is free in small may not be in large.
constexpr float kLeastWeight = 0.3F;
constexpr double kNearLoad = 0.05;  ///< of a load: another one that is no further away has about the same plan

/// Every rank's graph, its op times, and the keep-all step they make together.
struct NominalStep {
  std::vector<double> loads;  ///< of each rank, at which it was built
  std::vector<Graph> graphs;
  std::vector<std::vector<std::int64_t>> op_ns;
  std::vector<simulate::RankWork> work;
  simulate::StepTiming timing;
};

/// Builds what is not there yet at these loads.
Status build_nominal(const PlanRequest& request, const std::vector<double>& loads, NominalStep& nominal) {
  if (loads == nominal.loads) return {};
  const std::size_t ranks = loads.size();
  nominal.graphs.resize(ranks);
  nominal.op_ns.resize(ranks);
  nominal.work.resize(ranks);
  Status status = threads::parallel_try_each(ranks, [&](std::size_t rank) -> Status {
    if (!nominal.loads.empty() && nominal.loads[rank] == loads[rank]) return {};
    Result<Graph> graph =
        graph_build::build_step_graph(request.job, request.machine, static_cast<std::int32_t>(rank), loads[rank]);
    if (!graph) return graph.error();
    nominal.graphs[rank] = std::move(graph).value();
    nominal.op_ns[rank] = cost::op_durations(nominal.graphs[rank], request.machine, request.time_scale);
    nominal.work[rank] = simulate::work_of(nominal.graphs[rank], nominal.op_ns[rank]);
    return {};
  });
  if (!status) return status;
  Result<simulate::StepTiming> timing = simulate::simulate_step(nominal.work);
  if (!timing) return timing.error();
  nominal.timing = std::move(timing).value();
  nominal.loads = loads;
  return {};
}

StepFigures summarise(const PlanRequest& request, const simulate::StepTiming& timing, const PlanOutcome& outcome,
                      std::int64_t keep_all_ns) {
  StepFigures f{.step_ns = timing.step_ns, .keep_all_step_ns = keep_all_ns};
  const auto step = static_cast<double>(timing.step_ns);
  const double total = step * static_cast<double>(timing.ranks.size());
  for (const simulate::Timeline& t : timing.ranks) {
    f.bubble_percent += 100.0 * static_cast<double>(t.receive_wait_ns + timing.step_ns - t.finish_ns) / total;
    f.exposed_communication_percent += 100.0 * static_cast<double>(t.intra_wait_ns + t.inter_wait_ns) / total;
    f.exposed_copy_percent += 100.0 * static_cast<double>(t.copy_wait_ns) / total;
  }
  for (const RankPlan& rank : outcome.ranks)
    f.recompute_percent +=
        100.0 * static_cast<double>(rank.figures.recompute_ns + rank.figures.hidden_recompute_ns) / total;
  const double tokens =
      static_cast<double>(request.job.parallel.global_batch) * static_cast<double>(request.job.model.sequence);
  const double seconds = step * 1e-9;
  const double peak =
      request.machine.chip.sheet.peak(Precision::bf16) * static_cast<double>(request.job.parallel.devices());
  const graph_build::TokenFlops flops = graph_build::flops_per_token(request.job.model);
  f.tokens_per_s = tokens / seconds;
  f.mfu_percent = 100.0 * flops.full_square * tokens / seconds / peak;
  f.mfu_causal_percent = 100.0 * flops.causal * tokens / seconds / peak;
  f.fullest_load = graph_build::built_load(request.job, request.machine, outcome.ranks.front().figures.load).fullest;
  return f;
}

std::vector<std::int32_t> wanted_ranks(const PlanRequest& request) {
  std::vector<std::int32_t> ranks = request.ranks;
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(request.job.parallel.pipeline));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Status check(const PlanRequest& request) {
  if (request.policy == nullptr) return internal_fault("no policy given");
  if (request.step && request.time_scale != 1) return bad_input("the costs of a given step are not scaled");
  if (request.step) return {};
  const auto problems = graph_build::find_problems(request.job);
  if (!problems.empty()) return bad_input(problems.front().key + ": " + problems.front().message);
  const auto of_device = graph_build::find_device_problems(request.job, request.machine);
  if (!of_device.empty()) return bad_input(of_device.front().key + ": " + of_device.front().message);
  for (const std::int32_t rank : request.ranks)
    if (rank < 0 || rank >= request.job.parallel.pipeline)
      return bad_input("rank " + std::to_string(rank) + " does not exist: the job has pipeline ranks 0 to " +
                       std::to_string(request.job.parallel.pipeline - 1));
  return {};
}

/// Of every rank, before any is planned. `request` outlives them.
Result<std::vector<PlannedLoad>> first_loads(const PlanRequest& request) {
  const Result<graph_build::LoadShape> shape = graph_build::load_shape(request.job, request.machine);
  const double asked = request.load.value_or(request.job.expert_load.mean);
  const PlannedLoad one =
      shape ? PlannedLoad(request, shape.value().devices, shape.value().most_load(), shape.value().fixed_load(asked))
            : PlannedLoad(request, 1, 1);  // nothing is routed
  std::vector<PlannedLoad> loads(static_cast<std::size_t>(request.job.parallel.pipeline), one);
  Status status = threads::parallel_try_each(loads.size(), [&](std::size_t r) { return loads[r].start(r); });
  if (!status) return status.error();
  return loads;
}

/// A given step has no tokens and no other rank to wait for.
StepFigures summarise_given(const simulate::StepTiming& timing, const PlanOutcome& outcome) {
  StepFigures f{.step_ns = timing.step_ns, .keep_all_step_ns = outcome.step.keep_all_step_ns};
  const auto percent = [&](std::int64_t ns) {
    return 100.0 * static_cast<double>(ns) / static_cast<double>(std::max<std::int64_t>(1, timing.step_ns));
  };
  f.exposed_copy_percent = percent(timing.ranks.front().copy_wait_ns);
  f.recompute_percent = percent(outcome.ranks.front().figures.recompute_ns);
  return f;
}

/// How long the compute lane of a rank stands still between two times, ns.
std::int64_t idle_ns(const simulate::RankWork& work, const simulate::Timeline& times, std::int64_t begin_ns,
                     std::int64_t end_ns) {
  std::int64_t idle = end_ns - begin_ns;
  for (std::size_t t = 0; t < work.lanes.size() && idle > 0; ++t) {
    if (work.lanes[t] != Lane::compute) continue;
    if (times.start_ns[t] >= end_ns) break;
    idle -= std::max<std::int64_t>(0, std::min(end_ns, times.end_ns[t]) - std::max(begin_ns, times.start_ns[t]));
  }
  return idle;
}

/// What lies of ours on the longest path of a step, by rank: of other lanes, where the compute lane stands still
/// beside. `work`: as played, with copies charged.
void fill_paid(const std::vector<simulate::RankWork>& work, const simulate::StepTiming& timing, PlanOutcome& outcome) {
  std::vector<RankPlan*> planned(work.size(), nullptr);
  for (RankPlan& plan : outcome.ranks) {
    planned[static_cast<std::size_t>(plan.graph.rank)] = &plan;
    plan.figures.paid_ns = 0;
  }
  for (const simulate::TaskOfRank& at : timing.longest_path) {
    const auto rank = static_cast<std::size_t>(at.rank), task = static_cast<std::size_t>(at.task);
    RankPlan* plan = planned[rank];
    if (plan == nullptr) continue;  // keeps everything
    const bool is_of_graph = plan->program.schedule.tasks[task].kind == TaskKind::op;
    const bool computes = work[rank].lanes[task] == Lane::compute;
    const simulate::Timeline& times = timing.ranks[rank];
    if (computes)
      plan->figures.paid_ns += work[rank].duration_ns[task] - (is_of_graph ? plan->program.estimate_ns[task] : 0);
    else if (!is_of_graph)
      plan->figures.paid_ns += idle_ns(work[rank], times, times.start_ns[task], times.end_ns[task]);
  }
}

/// Plays the step: the ranks planned by their programs, the others as given. Fills timelines and figures of the step
/// but keep_all_step_ns, which it takes from there.
Status play(const PlanRequest& request, std::vector<simulate::RankWork> work, PlanOutcome& outcome) {
  threads::parallel_for_each(0, outcome.ranks.size(), [&](std::size_t i) {
    const RankPlan& plan = outcome.ranks[i];
    work[static_cast<std::size_t>(plan.graph.rank)] = simulate::work_of(
        plan.graph, plan.program.schedule,
        schedule::charged_durations(plan.graph, plan.program.schedule, request.machine, plan.program.estimate_ns));
  });
  Result<simulate::StepTiming> timing = simulate::simulate_step(work);
  if (!timing) return timing.error();
  outcome.step = request.step ? summarise_given(timing.value(), outcome)
                              : summarise(request, timing.value(), outcome, outcome.step.keep_all_step_ns);
  fill_paid(work, timing.value(), outcome);
  for (RankPlan& plan : outcome.ranks)
    plan.timeline = std::move(timing.value().ranks[static_cast<std::size_t>(plan.graph.rank)]);
  return {};
}

/// The wanted ranks of a job, planned at loads that they settle on.
class JobPlanning {
 public:
  JobPlanning(const PlanRequest& request, std::vector<std::int32_t> ranks)
      : request_(request), ranks_(std::move(ranks)), settled_(ranks_.size(), 0) {
    outcome_.parameters = graph_build::count_parameters(request.job.model);
    outcome_.ranks.resize(ranks_.size());
  }

  Result<PlanOutcome> run() && {
    Result<std::vector<PlannedLoad>> first = first_loads(request_);
    if (!first) return first.error();
    loads_ = std::move(first).value();
    if (Status status = start_from_policy(); !status) return status.error();
    if (request_.trial) {
      if (Status status = build(); !status) return status.error();
      outcome_.step.keep_all_step_ns = nominal_.timing.step_ns;
      if (nominal_.timing.step_ns >= request_.trial->useless_step_ns) return cut_short();
      if (Status status = plan(request_.trial->first); !status) return status.error();
      if (!what_is_settled_fits()) return cut_short();
    }
    if (Status status = plan(ranks_); !status) return status.error();
    if (Status status = shorten_step(); !status) return status.error();
    if (Status status = choose_together(); !status) return status.error();
    if (Status status = finish(); !status) return status.error();
    return std::move(outcome_);
  }

 private:
  /// A fixed policy's schedule is known before its addresses are. Packing all of it at a load that is too low would
  /// take as long as everything else.
  Status start_from_policy() {
    if (!request_.policy->is_fixed) return {};
    if (std::ranges::none_of(loads_, &PlannedLoad::is_open)) return {};
    if (Status status = build(); !status) return status;
    return threads::parallel_try_each(ranks_.size(), [&](std::size_t i) -> Status {
      const std::size_t r = rank(i);
      if (!loads_[r].is_open()) return {};
      RankPlan plan{.graph = nominal_.graphs[r]};
      Result<std::optional<Schedule>> schedule = fixed_schedule(request_of(r), plan);
      if (!schedule) return schedule.error();
      if (schedule.value()) loads_[r].start_from(plan.graph, *schedule.value());
      return {};
    });
  }

  Status build() {
    std::vector<double> now;
    for (const PlannedLoad& load : loads_) now.push_back(load.load());
    if (now != nominal_.loads) take_back_graphs();
    return build_nominal(request_, now, nominal_);
  }

  /// Of ranks prepared and not planned: their problems look at a step that is no more.
  void take_back_graphs() {
    for (std::size_t i = 0; i < prepared_.size(); ++i)
      if (prepared_[i].plan != nullptr)
        nominal_.graphs[rank(i)] = std::move(std::exchange(prepared_[i], {}).plan->graph);
  }

  /// Those of `some` that are wanted and not settled, until they are.
  Status plan(const std::vector<std::int32_t>& some) {
    std::vector<std::size_t> todo;  // places in ranks_
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (settled_[i] == 0 && std::ranges::find(some, ranks_[i]) != some.end()) todo.push_back(i);
    while (!todo.empty()) {
      if (Status status = build(); !status) return status;
      if (is_relaxation_due()) {
        if (Status status = prepare(all_places()); !status) return status;
        relax();
      }
      if (Status status = prepare(todo); !status) return status;
      if (Status status = plan_once(todo); !status) return status;
      threads::parallel_for_each(0, todo.size(), [&](std::size_t k) {
        const std::size_t i = todo[k];
        settled_[i] = loads_[rank(i)].settles(outcome_.ranks[i], nominal_.timing.step_ns) ? 1 : 0;
      });
      std::erase_if(todo, [&](std::size_t i) { return settled_[i] != 0; });
    }
    return {};
  }

  [[nodiscard]] std::vector<std::size_t> all_places() const {
    std::vector<std::size_t> places(ranks_.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    return places;
  }

  /// Makes the problems of ranks that have none yet.
  Status prepare(const std::vector<std::size_t>& todo) {
    prepared_.resize(ranks_.size());
    return threads::parallel_try_each(todo.size(), [&](std::size_t k) -> Status {
      const std::size_t r = rank(todo[k]);
      if (prepared_[todo[k]].plan != nullptr) return {};
      Result<PreparedRank> prepared = prepare_rank(std::move(nominal_.graphs[r]), request_of(r));
      if (!prepared) return prepared.error();
      prepared_[todo[k]] = std::move(prepared).value();
      return {};
    });
  }

  /// Once: a load that is a little higher moves no path.
  [[nodiscard]] bool is_relaxation_due() const {
    return request_.policy->prices_step && nominal_.work.size() > 1 && relaxed_loads_.empty();
  }

  /// What all ranks do together, before any of them decides. REQUIRES: all are prepared.
  void relax() {
    relaxed_loads_ = nominal_.loads;
    const Budgets budgets = budgets_of(request_);
    std::vector<RelaxedRank> relaxed;
    for (const PreparedRank& rank : prepared_) {
      if (rank.problem->is_flat()) return;
      relaxed.push_back({.problem = rank.problem.get(),
                         .device_budget = std::max<Bytes>(0, budgets.device - budgets.device / kPackingShare),
                         .host_budget = std::max<Bytes>(0, budgets.host)});
    }
    StepRelaxation relaxation = relax_step(nominal_.work, relaxed, request_.is_brief);
    weights_ = std::move(relaxation.weights);
    for (std::vector<float>& of_rank : weights_)
      for (float& weight : of_rank) weight = kLeastWeight + (1 - kLeastWeight) * weight;
    starts_ = std::move(relaxation.starts);
  }

  /// What a rank was to do at a load tells little of another one.
  [[nodiscard]] bool is_near_relaxed(std::size_t rank) const {
    return std::abs(loads_[rank].load() - relaxed_loads_[rank]) <= kNearLoad * relaxed_loads_[rank];
  }

  Status plan_once(const std::vector<std::size_t>& todo) {
    std::atomic<int> done{static_cast<int>(std::ranges::count(settled_, 1))};
    return threads::parallel_try_each(todo.size(), [&](std::size_t k) -> Status {
      const std::size_t i = todo[k];
      RankRequest request = request_of(rank(i));
      if (!starts_.empty() && is_near_relaxed(rank(i))) request.start = &starts_[i];
      Result<RankPlan> plan = plan_rank(std::exchange(prepared_[i], {}), std::move(request));
      if (!plan) return plan.error();
      outcome_.ranks[i] = std::move(plan).value();
      if (request_.progress) request_.progress(++done, static_cast<int>(ranks_.size()));
      return {};
    });
  }

  /// REQUIRES: build() at the loads of now.
  [[nodiscard]] RankRequest request_of(std::size_t rank) const {
    return {.request = request_,
            .nominal = nominal_.timing.ranks[rank],
            .op_ns = nominal_.op_ns[rank],
            .load = loads_[rank].load(),
            .weights = weights_.empty() ? std::span<const float>() : weights_[rank],
            .wants_offers = wants_offers(),
            .is_tentative = loads_[rank].is_tentative()};
  }

  /// All ranks of the step are planned, and time is not short.
  [[nodiscard]] bool wants_offers() const {
    return std::ssize(ranks_) == request_.job.parallel.pipeline && !request_.is_brief;
  }

  /// Plans ranks anew by simpler rules where that makes the step shorter.
  Status shorten_step() {
    const bool has_offers = std::ranges::any_of(outcome_.ranks, [](const RankPlan& p) { return !p.offers.empty(); });
    if (!has_offers || !outcome_.fits()) {
      drop_offers();
      return {};
    }
    if (Status status = build(); !status) return status;
    const Result<StepChoice> choice = choose_schedules(request_, outcome_.ranks, nominal_.timing);
    if (!choice) return choice.error();
    drop_offers();
    return plan_by(choice.value().rules, choice.value().own_step_ns);
  }

  /// Plans the ranks of a small pipeline anew by what makes its step shorter together.
  Status choose_together() {
    if (!request_.policy->prices_step || !wants_offers() || ranks_.size() < 2 || !outcome_.fits()) return {};
    if (Status status = build(); !status) return status;
    std::vector<RankRequest> requests;
    for (std::size_t i = 0; i < ranks_.size(); ++i) requests.push_back(request_of(rank(i)));
    Result<JointChoice> choice = choose_jointly(requests, outcome_.ranks);
    if (!choice) return choice.error();
    std::vector<Rule> answers;
    answers.reserve(ranks_.size());
    std::vector<const Rule*> rules(ranks_.size(), nullptr);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      std::optional<PolicyAnswer>& answer = choice.value().answers[i];
      if (!answer) continue;
      answers.push_back({.name = request_.policy->name,
                         .decide = [known = *std::move(answer)](const PolicyRequest&) { return known; }});
      rules[i] = &answers.back();
    }
    return plan_by(rules, choice.value().own_step_ns);
  }

  /// Plans ranks anew by the rules given, null: not, and keeps what comes of it if the step is shorter than `own_ns`.
  Status plan_by(const std::vector<const Rule*>& rules, std::int64_t own_ns) {
    std::vector<std::size_t> changed;
    for (std::size_t r = 0; r < rules.size(); ++r)
      if (rules[r] != nullptr) changed.push_back(r);
    std::vector<RankPlan> other(changed.size());
    const Status status = threads::parallel_try_each(changed.size(), [&](std::size_t i) -> Status {
      RankRequest request = request_of(changed[i]);
      request.rule = rules[changed[i]];
      request.wants_offers = false;
      request.is_tentative = true;  // without addresses for the rule's schedule the rank keeps its own plan
      Result<RankPlan> plan = plan_rank(outcome_.ranks[changed[i]].graph, request);
      if (!plan) return plan.error();
      other[i] = std::move(plan).value();
      if (other[i].figures.fits) loads_[changed[i]].describe(other[i]);
      return {};
    });
    if (!status) return status;
    return keep_if_shorter(changed, std::move(other), own_ns);
  }

  void drop_offers() {
    for (RankPlan& plan : outcome_.ranks) plan.offers.clear();
  }

  /// Addresses may have taken more than the schedules chosen did. `own_ns`: the step without the others.
  Status keep_if_shorter(const std::vector<std::size_t>& changed, std::vector<RankPlan> other, std::int64_t own_ns) {
    if (changed.empty()) return {};
    std::vector<char> is_kept(changed.size(), 0);
    for (std::size_t i = 0; i < changed.size(); ++i) {
      RankFigures &own = outcome_.ranks[changed[i]].figures, &now = other[i].figures;
      if (!now.fits || now.worst_load_f < own.worst_load_f) continue;
      if (own.offloaded_bytes == 0) now.lower_bound_ns = std::max(now.lower_bound_ns, own.lower_bound_ns);
      std::swap(outcome_.ranks[changed[i]], other[i]);
      is_kept[i] = 1;
    }
    const Result<std::int64_t> now = played_step_ns(request_, outcome_.ranks);
    if (!now) return now.error();
    if (now.value() < own_ns) return {};
    for (std::size_t i = 0; i < changed.size(); ++i)
      if (is_kept[i] != 0) std::swap(outcome_.ranks[changed[i]], other[i]);
    return {};
  }

  [[nodiscard]] std::size_t rank(std::size_t i) const { return static_cast<std::size_t>(ranks_[i]); }

  [[nodiscard]] bool what_is_settled_fits() const {
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (settled_[i] != 0 && !outcome_.ranks[i].figures.fits) return false;
    return true;
  }

  PlanOutcome cut_short() {
    std::size_t i = 0;
    std::erase_if(outcome_.ranks, [&](const RankPlan&) { return settled_[i++] == 0; });
    outcome_.is_whole = false;
    return std::move(outcome_);
  }

  Status finish() {
    // A rank may have settled on a load that was tried earlier.
    if (Status status = build(); !status) return status;
    const std::int64_t step_ns = nominal_.timing.step_ns;
    outcome_.step.keep_all_step_ns = step_ns;
    std::vector<simulate::RankWork> work = std::move(nominal_.work);
    for (RankPlan& plan : outcome_.ranks)
      plan.figures.lower_bound_percent = 100.0 * static_cast<double>(plan.figures.lower_bound_ns) /
                                         static_cast<double>(std::max<std::int64_t>(1, step_ns));
    if (Status status = play(request_, std::move(work), outcome_); !status) return status;
    for (RankPlan& plan : outcome_.ranks)
      for (ReceiveEvent& receive : plan.program.receives)
        receive.arrival_estimate_ns = plan.timeline.end_ns[row(receive.task)];
    return {};
  }

  const PlanRequest& request_;
  std::vector<std::int32_t> ranks_;
  std::vector<char> settled_;  ///< by place in ranks_
  std::vector<PlannedLoad> loads_;
  NominalStep nominal_;
  std::vector<PreparedRank> prepared_;             ///< by place in ranks_, until it is planned
  simulate::PerComputeTask weights_;               ///< of what ranks add; empty: in full
  std::vector<double> relaxed_loads_;              ///< of each rank of the step; empty: it is not relaxed yet
  std::vector<decide::gaps::SearchStart> starts_;  ///< by place in ranks_; empty: not known
  PlanOutcome outcome_;
};

Result<PlanOutcome> plan_given(PlanRequest request) {
  const Graph& graph = *request.step->graph;
  std::atomic<bool> stopped{false};  // a search was told so
  if (request.step->should_stop)
    request.step->should_stop = [&stopped, asked = request.step->should_stop] {
      if (asked()) stopped = true;
      return stopped.load();
    };
  std::vector<std::int64_t> op_ns = cost::op_durations(graph, request.machine, request.time_scale);
  Result<simulate::StepTiming> nominal =
      simulate::simulate_step(std::vector<simulate::RankWork>{simulate::work_of(graph, op_ns)});
  if (!nominal) return nominal.error();
  Result<RankPlan> planned =
      plan_rank(graph, {.request = request, .nominal = nominal.value().ranks.front(), .op_ns = std::move(op_ns)});
  if (!planned) return planned.error();
  RankFigures& f = planned.value().figures;
  PlanOutcome outcome;
  outcome.step.keep_all_step_ns = nominal.value().step_ns;
  f.lower_bound_percent = 100.0 * static_cast<double>(f.lower_bound_ns) /
                          static_cast<double>(std::max<std::int64_t>(1, nominal.value().step_ns));
  outcome.ranks.push_back(std::move(planned).value());
  outcome.stopped = stopped;
  if (Status status = simulate_plan(request, outcome); !status) return status.error();
  return outcome;
}

}  // namespace

bool PlanOutcome::fits() const {
  return is_whole && std::all_of(ranks.begin(), ranks.end(), [](const RankPlan& r) { return r.figures.fits; });
}

double PlanOutcome::highest_load() const {
  double of_all = 0, of_pressed = 0;
  for (const RankPlan& rank : ranks) {
    of_all = std::max(of_all, rank.figures.load);
    if (rank.figures.added_ns > 0) of_pressed = std::max(of_pressed, rank.figures.load);
  }
  return of_pressed > 0 ? of_pressed : of_all;
}

Status simulate_plan(const PlanRequest& request, PlanOutcome& outcome) {
  const auto ranks = static_cast<std::size_t>(request.step ? 1 : request.job.parallel.pipeline);
  if (outcome.ranks.size() != ranks)
    return bad_input(fmt::format("the plan has {} of the {} ranks of its step; a step needs all of them",
                                 outcome.ranks.size(), ranks));
  return play(request, std::vector<simulate::RankWork>(ranks), outcome);
}

graph_build::ReserveMemory reserve_of(const PlanRequest& request) {
  return request.step ? graph_build::reserve_memory(request.machine)
                      : graph_build::reserve_memory(request.machine, request.job.parallel);
}

Result<PlanOutcome> plan_step(const PlanRequest& request) {
  if (Status status = check(request); !status) return status.error();
  std::optional<tbb::global_control> limit;
  if (request.threads > 0)
    limit.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(request.threads));
  if (request.step) return plan_given(request);
  return JobPlanning(request, wanted_ranks(request)).run();
}

}  // namespace tidemark::plan
