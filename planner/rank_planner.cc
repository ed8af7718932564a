#include "planner/rank_planner.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/fingerprint.h"
#include "core/verify.h"
#include "planner/decide/flat/bound.h"
#include "planner/decide/gaps/prices.h"
#include "planner/decide/rank_problem.h"
#include "planner/decide/sites/state_offload.h"
#include "planner/graph_build/liveness.h"
#include "planner/ladder/contingency.h"
#include "planner/ladder/dynamic_bound.h"
#include "planner/layout/lay_out.h"
#include "planner/schedule/program_rows.h"
#include "planner/schedule/scheduler.h"

namespace tidemark::plan {
namespace {

constexpr int kMaxAttempts = 6;
/// Of a flat step, which takes back half of what is missing at a time: its search has an answer for every byte.
constexpr int kMaxFlatAttempts = 16;
constexpr int kBisections = 3;
constexpr Bytes kPackingShare = 56;
constexpr Bytes kHostPackingShare = 128;
constexpr Bytes kStrideShare = 400;
constexpr Bytes kRoomyShare = 80;
constexpr std::size_t kSmallProblem = 1000;  ///< gaps; up to here more targets are tried
constexpr int kBoundSteps = 160;
/// Units of packing work (about a microsecond each) on top of the orders, for each layout and step of effort beyond 1:
/// for the reference job up to 50,000 change nothing.
constexpr double kPackWork = 3'000;

/// Of a flat step, which has one rank and no site classes to trade with: about a second where the orders are not low
/// enough.
constexpr std::int64_t kFlatPackWork = 1'000'000;

/// Budgets of one rank with everything nobody's allocator owns taken off.
struct Budgets {
  Bytes device = 0, host = 0, reserve = 0, total = 0;
};

Budgets budgets_of(const PlanRequest& request) {
  Budgets b;
  b.total = request.budget_bytes.value_or(request.machine.visible_bytes);
  b.reserve = reserve_of(request).total();
  b.device = std::max<Bytes>(0, b.total - b.reserve);
  b.host = request.host_budget_bytes.value_or(request.machine.host_bytes_per_device);
  return b;
}

/// A plan carried all the way to addresses.
struct Built {
  Plan plan;
  decide::gaps::PlanCost cost;
  Schedule schedule;
  Layout layout;
  bool followed = false;  ///< GivenStep::followed
  [[nodiscard]] Bytes height() const {
    return followed ? layout.device_load_bytes : layout.arenas.front().height_bytes;
  }
  [[nodiscard]] Bytes host_height() const { return layout.arenas.size() > 1 ? layout.arenas[1].height_bytes : 0; }
};

/// Work for one layout. The effort of packing may be any positive number; up to 1 the orders alone are asked.
std::int64_t pack_work(const decide::RankProblem& problem, const PlanRequest& request) {
  if (request.step && request.step->followed) return 0;
  if (problem.is_flat()) return kFlatPackWork;
  return static_cast<std::int64_t>(std::clamp(kPackWork * (request.pack_effort - 1), 0.0, 1e15));
}

Result<Built> build(const decide::RankProblem& problem, const PolicyAnswer& answer, const Budgets& budgets,
                    const PlanRequest& request) {
  Result<Schedule> schedule = schedule::build_schedule(
      {.graph = problem.graph(), .liveness = problem.liveness(), .nominal = problem.nominal(), .plan = answer.plan});
  if (!schedule) return schedule.error();
  Built built{.plan = answer.plan, .cost = answer.cost, .schedule = std::move(schedule).value()};
  built.layout = layout::lay_out(built.schedule, {.arenas = layout::device_and_host(budgets.device, budgets.host,
                                                                                    problem.machine().alignment_bytes),
                                                  .arena_of = {},
                                                  .work = pack_work(problem, request)});
  built.followed = request.step && request.step->followed;
  return built;
}

bool fits(const Built& built, const Budgets& budgets) {
  return built.height() <= budgets.device && built.host_height() <= budgets.host;
}

/// One that fits, then the one that adds least, or else is lowest.
bool is_better(const Built& a, const Built& b, const Budgets& budgets) {
  if (fits(a, budgets) != fits(b, budgets)) return fits(a, budgets);
  return fits(a, budgets) ? a.cost.added_ns() < b.cost.added_ns() : a.height() < b.height();
}

/// The half-step with the most device bytes, and the name of the op there.
std::string name_peak(const Graph& graph, const Schedule& schedule) {
  std::vector<Bytes> delta(static_cast<std::size_t>(schedule.compute_tasks) * 2 + 2, 0);
  for (const Residency& r : schedule.residencies) {
    if (r.space != MemorySpace::device) continue;
    delta[static_cast<std::size_t>(r.acquire)] += r.bytes;
    delta[static_cast<std::size_t>(r.release)] -= r.bytes;
  }
  Bytes live = 0, top = -1;
  std::size_t at = 0;
  for (std::size_t t = 0; t < delta.size(); ++t) {
    live += delta[t];
    if (live > top) {
      top = live;
      at = t;
    }
  }
  std::size_t compute = 0;
  for (const Task& task : schedule.tasks) {
    if (task.lane != Lane::compute) continue;
    if (compute++ < at / 2) continue;
    const Site& site = graph.sites[row(task.site)];
    std::string name = graph.op_templates[row(task.op_template)].name;
    if (task.kind == TaskKind::recompute) name += " (recomputed)";
    name += ", chunk " + std::to_string(site.chunk);
    if (site.layer >= 0) name += ", layer " + std::to_string(site.layer);
    if (site.micro_batch >= 0) name += ", micro-batch " + std::to_string(site.micro_batch);
    return name;
  }
  return "end of step";
}

void fill_figures(const RankRequest& in, decide::RankProblem& problem, const Built& built, const Budgets& budgets,
                  double lower_bound_ns, RankPlan& plan) {
  RankFigures& f = plan.figures;
  f.rank = plan.graph.rank;
  f.load = in.load;
  f.budget_bytes = budgets.total;
  f.reserve_bytes = budgets.reserve;
  f.static_bytes = problem.persistent_bytes();
  f.peak_bytes = budgets.reserve + built.height();
  f.activation_peak_bytes = built.height() - f.static_bytes;
  f.host_bytes = built.host_height();
  f.offloaded_bytes = problem.state_offload().bytes;
  f.offload_ns = problem.state_offload().added_ns();
  f.swapped_bytes_per_step = built.cost.swapped_bytes;
  f.recompute_ns = built.cost.recompute_ns;
  f.exposed_communication_ns = built.cost.exposed_communication_ns;
  f.exposed_copy_ns = built.cost.exposed_copy_ns;
  f.copy_overhead_ns = built.cost.copy_overhead_ns;
  f.added_ns = built.cost.added_ns();
  f.fits = fits(built, budgets);
  // Where nothing fits there is no added time to bound.
  f.lower_bound_ns = f.fits ? static_cast<std::int64_t>(std::floor(std::max(0.0, lower_bound_ns))) : 0;
  f.peak_op = name_peak(plan.graph, built.schedule);
}

/// Why a rank does not fit and the smallest budget its policy could meet.
Status explain_misfit(const RankRequest& in, decide::RankProblem& problem, const Budgets& budgets, const Built& built,
                      RankPlan& plan) {
  RankFigures& f = plan.figures;
  // What the rule comes to when asked for the least it can.
  const PolicyAnswer answer =
      in.request.policy->decide({.problem = problem, .device_budget_bytes = 0, .host_budget_bytes = budgets.host});
  Result<Built> smallest = build(problem, answer, budgets, in.request);
  if (!smallest) return smallest.error();
  const Bytes least = std::min(built.height(), smallest.value().height());
  f.smallest_budget_bytes = least + budgets.reserve;
  if (built.height() > budgets.device) {
    f.reason = "device memory: needs " + format_bytes(f.peak_bytes) + " of " + format_bytes(f.budget_bytes);
    const auto top = contributors_at(plan.graph, built.schedule, [&] {
      std::int32_t clock = 0;
      const MemoryProfile profile = memory_profile(plan.graph, built.schedule);
      Bytes most = -1;
      for (std::size_t i = 0; i < profile.clock.size(); ++i) {
        Bytes sum = 0;
        for (const Bytes b : profile.bytes[i]) sum += b;
        if (sum > most) {
          most = sum;
          clock = profile.clock[i];
        }
      }
      return clock;
    }());
    if (!top.empty())
      f.reason += "; " + top.front().name + " binds with " + format_bytes(top.front().bytes) + " (" +
                  std::to_string(top.front().count) + " in flight)";
  } else {
    f.reason = "pinned host memory: needs " + format_bytes(f.host_bytes) + " of " + format_bytes(budgets.host);
  }
  return {};
}

/// Asks the policy, carries the answer to addresses, and where the packing needs more than the bytes alive asks again
/// for less. The best try stays: one that fits, then the one that adds least, then the lowest.
class TargetLoop {
 public:
  TargetLoop(const RankRequest& in, decide::RankProblem& problem, const Budgets& budgets, RankPlan& plan)
      : in_(in), problem_(problem), budgets_(budgets), plan_(plan) {}

  Status run() {
    if (Status s = search_targets(in_.request.policy->decide); !s) return s;
    if (fits(*best_, budgets_) && best_->cost.added_ns() == 0) return {};
    if (problem_.is_flat()) return {};  // its search holds what simpler rules come to
    for (const DecideFunction& rule : in_.request.policy->fallbacks)
      if (Status s = search_targets(rule); !s) return s;
    return {};
  }

  [[nodiscard]] Built& best() { return *best_; }
  /// The best lower bound the answers prove at the full budgets.
  [[nodiscard]] std::optional<double> bound_ns() const { return bound_ns_; }

 private:
  /// What one rule has come to so far.
  struct Progress {
    const DecideFunction& rule;
    int attempts = 0;
    Plan last_plan;
    Bytes last_over = 0, last_host_over = 0, last_peak = 0;  ///< of the last attempt
    Bytes failing = 0, failing_host = 0;                     ///< lowest targets that overflowed
    Bytes room = 0, host_room = 0;                           ///< left by the last attempt
    bool last_fits = false, exhausted = false, fixed_rule = false;
    bool dearer = false;  ///< what it offers costs more than what another rule already has
  };

  Status search_targets(const DecideFunction& rule) {
    Progress p{.rule = rule};
    Bytes device = first_target(), host = first_host_target();
    while (p.attempts < (problem_.is_flat() ? kMaxFlatAttempts : kMaxAttempts)) {
      if (Status s = attempt(p, device, host); !s) return s;
      if (p.last_fits || p.exhausted || p.dearer) break;
      if (problem_.is_flat()) {
        device = std::min(device, p.last_peak) - std::max<Bytes>(1, p.last_over / 2);
        if (device <= 0 || p.last_over == 0) break;
        continue;
      }
      // A quarter more than what was missing, and on large problems a stride that outgrows the packers' scatter.
      if (p.last_over > 0)
        device = std::min(device, p.last_peak) - p.last_over - p.last_over / 4 - stride(budgets_.device);
      if (p.last_host_over > 0) host -= p.last_host_over + p.last_host_over / 4 + stride(budgets_.host);
      if (device <= 0 || host < 0) break;
    }
    if (p.dearer) return {};
    const bool in_doubt = !p.last_fits && !p.fixed_rule;
    if (in_doubt) {
      // Nothing in between worked: the lowest peak the rule can reach is the likeliest to have addresses.
      if (Status s = attempt(p, 0, budgets_.host); !s) return s;
      device = p.last_peak;
      host = budgets_.host;
    }
    return refine_targets(p, device, host, in_doubt);
  }

  /// Between a target that fits and one that did not there may be a cheaper plan: tried where it is cheap, was in
  /// doubt, or left much room.
  Status refine_targets(Progress& p, Bytes device, Bytes host, bool in_doubt) {
    const bool roomy_host = p.failing_host > host && p.host_room > 2 * budgets_.host / kRoomyShare;
    const bool roomy = p.room > budgets_.device / kRoomyShare || roomy_host;
    const bool small = problem_.size() <= kSmallProblem;
    if (!p.last_fits || p.attempts == 1 || problem_.is_flat() || !(in_doubt || small || roomy)) return {};
    if (roomy_host) host += (p.failing_host - host) / 2;
    Bytes fails = p.failing, fits = device;
    for (int i = 0; i < (in_doubt || small ? kBisections : 1) && !p.dearer; ++i) {
      const Bytes middle = fits < fails ? fits + (fails - fits) / 2 : fits;
      if (Status s = attempt(p, middle, host); !s) return s;
      (p.last_fits ? fits : fails) = middle;
    }
    return {};
  }

  /// Large problems pack to within one to two percent of the bytes alive: asking for that much less at once saves a
  /// round.
  [[nodiscard]] Bytes first_target() const {
    const bool packs_well = problem_.is_flat() || problem_.size() <= kSmallProblem;
    if (problem_.keep_all_peak_bytes() <= budgets_.device || packs_well) return budgets_.device;
    return budgets_.device - std::max<Bytes>(0, budgets_.device - problem_.persistent_bytes()) / kPackingShare;
  }

  [[nodiscard]] Bytes stride(Bytes budget) const { return problem_.size() > kSmallProblem ? budget / kStrideShare : 0; }

  [[nodiscard]] Bytes first_host_target() const {
    return problem_.size() <= kSmallProblem ? budgets_.host : budgets_.host - budgets_.host / kHostPackingShare;
  }

  void raise_bound(double ns) { bound_ns_ = std::max(bound_ns_.value_or(0.0), ns); }

  /// Asks a rule, carries its plan to addresses, and keeps it if it is the best so far.
  Status attempt(Progress& p, Bytes device, Bytes host) {
    ++p.attempts;
    PolicyAnswer answer = p.rule({.problem = problem_, .device_budget_bytes = device, .host_budget_bytes = host});
    if (answer.prices)
      raise_bound(decide::gaps::bound_of(problem_.gaps(), budgets_.device, budgets_.host, *answer.prices));
    // A lower target mostly costs more, so a large problem's time is not spent on what is dearer already.
    if (answer.least_added_ns && device >= budgets_.device) raise_bound(static_cast<double>(*answer.least_added_ns));
    p.dearer = problem_.size() > kSmallProblem && &p.rule != &in_.request.policy->decide && fits(*best_, budgets_) &&
               answer.cost.added_ns() >= best_->cost.added_ns();
    p.fixed_rule = p.attempts > 1 && answer.plan == p.last_plan && answer.cost.peak_bytes > device;
    p.exhausted = answer.cost.peak_bytes > device;  // the rule itself could not meet the target
    p.last_plan = answer.plan;
    if (p.dearer) return {};

    Result<Built> built = build(problem_, answer, budgets_, in_.request);
    if (!built) return built.error();
    Built& now = built.value();
    plan_.attempts.push_back({.target_bytes = device,
                              .height_bytes = now.height(),
                              .load_bytes = now.layout.device_load_bytes,
                              .packer = now.layout.packer});
    p.last_fits = fits(now, budgets_);
    p.last_peak = now.cost.peak_bytes;
    p.last_over = std::max<Bytes>(0, now.height() - budgets_.device);
    p.last_host_over = std::max<Bytes>(0, now.host_height() - budgets_.host);
    p.room = budgets_.device - now.height();
    p.host_room = budgets_.host - now.host_height();
    if (p.last_over > 0 && device > 0) p.failing = device;
    if (p.last_host_over > 0) p.failing_host = host;
    if (best_ && !is_better(now, *best_, budgets_)) return {};
    best_ = std::move(now);
    return {};
  }

  const RankRequest& in_;
  decide::RankProblem& problem_;
  const Budgets& budgets_;
  RankPlan& plan_;
  std::optional<Built> best_;
  std::optional<double> bound_ns_;
};

/// What no plan within the budgets adds less than, where the answers proved nothing.
double lower_bound(decide::RankProblem& problem, const Budgets& budgets) {
  if (problem.is_flat())
    return static_cast<double>(decide::flat::least_added_cost(problem.flat_problem(), budgets.device));
  const decide::gaps::GapProblem& gaps = problem.gaps();
  return decide::gaps::find_prices(gaps, decide::gaps::critical_positions(gaps, budgets.device), budgets.device,
                                   budgets.host, kBoundSteps)
      .bound;
}

decide::FlatOptions flat_options(const PlanRequest& request) {
  decide::FlatOptions options;
  if (!request.step) return options;
  options.rules = request.step->rules;
  options.effort = request.step->effort;
  if (request.step->on_progress) options.on_progress = request.step->on_progress;
  return options;
}

/// Everything the planner emits has passed the checker. A program that does not fit is checked as if its arenas were as
/// large as it needs.
Status verify(const Graph& graph, Program& program) {
  std::vector<Bytes> capacities;
  for (Arena& arena : program.layout.arenas) {
    capacities.push_back(arena.capacity_bytes);
    arena.capacity_bytes = std::max(arena.capacity_bytes, arena.height_bytes);
  }
  const auto violation = verify_program(graph, program);
  for (std::size_t a = 0; a < capacities.size(); ++a) program.layout.arenas[a].capacity_bytes = capacities[a];
  if (!violation) return {};
  return internal_fault("rank " + std::to_string(graph.rank) + ": the plan failed verification: " + violation->detail);
}

/// What a rank comes to with some of its state offloaded.
struct Tried {
  std::unique_ptr<decide::RankProblem> problem;
  Built best;
  double bound_ns = 0;  ///< with the same state offloaded no plan adds less
};

/// Looks at how much of a rank's state to offload by what is left to add, priced, and searches there; elsewhere only
/// where that did not fit.
class OffloadLoop {
 public:
  OffloadLoop(const RankRequest& in, const Budgets& budgets, RankPlan& plan)
      : in_(in), budgets_(budgets), plan_(plan) {}

  Status run() {
    whole_ = make_problem({});
    if (Status s = whole_->check(); !s) return s;
    const std::vector<decide::sites::OffloadChoice> choices = promising(*whole_);
    if (choices.empty()) return search(std::move(whole_));
    std::size_t least = 0;  // storages: with fewer the device was too small
    for (const decide::sites::OffloadChoice& choice : choices) {
      const std::size_t count = choice.storages.size();
      if (count < least) continue;
      if (Status s = squeeze(choice); !s) return s;
      if (fits(best_.best, budgets_)) return beat_simpler_rules();
      if (!short_of_host_) least = count + 1;
    }
    return {};
  }

  [[nodiscard]] Tried& best() { return best_; }

 private:
  static constexpr int kSqueezes = 5;
  static constexpr std::size_t kParts = 4;
  static constexpr int kPriceSteps = 20;
  static constexpr double kDoubt = 1.05;  ///< state is offloaded where estimates differ by more than they are worth

  [[nodiscard]] std::unique_ptr<decide::RankProblem> make_problem(decide::sites::OffloadChoice choice) const {
    return std::make_unique<decide::RankProblem>(plan_.graph, plan_.liveness, in_.request.machine, in_.nominal,
                                                 in_.op_ns, budgets_.host, flat_options(in_.request),
                                                 std::move(choice));
  }

  /// From nothing to all state, the least estimate of added time first. Empty: nothing is offloaded anyway.
  [[nodiscard]] std::vector<decide::sites::OffloadChoice> promising(decide::RankProblem& whole) const {
    if (!in_.request.policy->offloads_state || whole.is_flat() || whole.keep_all_peak_bytes() <= budgets_.device)
      return {};
    const std::vector<StorageId> state = decide::sites::offloadable_state(plan_.graph, plan_.liveness, in_.nominal);
    if (state.empty()) return {};
    std::vector<std::pair<double, decide::sites::OffloadChoice>> estimates;
    decide::gaps::Prices prices;
    for (std::size_t part = 0; part <= kParts; ++part) {
      const std::size_t count = state.size() * part / kParts;
      if (part > 0 && count == state.size() * (part - 1) / kParts) continue;
      // Addresses take a little more than the bytes alive.
      decide::sites::OffloadChoice choice{
          .storages = {state.begin(), state.begin() + static_cast<std::ptrdiff_t>(count)},
          .device_budget = budgets_.device - budgets_.device / kPackingShare};
      const decide::sites::StateOffload offload = whole.offload_of(choice);
      if (offload.bytes > budgets_.host) break;
      const decide::gaps::GapProblem& gaps = whole.gaps();
      const Bytes device = budgets_.device + offload.bytes;
      prices = decide::gaps::find_prices(gaps, decide::gaps::critical_positions(gaps, device), device,
                                         budgets_.host - offload.bytes, kPriceSteps, part > 0 ? &prices : nullptr);
      const double estimate = static_cast<double>(offload.added_ns()) + prices.bound;
      estimates.emplace_back(part > 0 ? kDoubt * estimate : estimate, std::move(choice));
    }
    std::ranges::stable_sort(estimates, {}, [](const auto& e) { return e.first; });
    std::vector<decide::sites::OffloadChoice> choices;
    for (auto& [estimate, choice] : estimates) choices.push_back(std::move(choice));
    return choices;
  }

  /// Where addresses take more than the budget, state is given less room to come and go in, at last as little as can
  /// be.
  Status squeeze(decide::sites::OffloadChoice choice) {
    for (int i = 0; i < kSqueezes; ++i) {
      std::unique_ptr<decide::RankProblem> problem = choice.storages.empty() ? std::move(whole_) : make_problem(choice);
      if (Status s = problem->check(); !s) return s;
      if (Status s = search(std::move(problem)); !s) return s;
      if (over_bytes_ <= 0 || choice.storages.empty()) return {};
      choice.device_budget = i + 2 < kSqueezes ? choice.device_budget - over_bytes_ - over_bytes_ / 4 : 0;
    }
    return {};
  }

  /// The choice was made on estimates: where a simpler rule that keeps all state adds less, so must this plan.
  Status beat_simpler_rules() {
    if (whole_ == nullptr) return {};
    for (const DecideFunction& rule : in_.request.policy->fallbacks) {
      const PolicyAnswer answer =
          rule({.problem = *whole_, .device_budget_bytes = budgets_.device, .host_budget_bytes = budgets_.host});
      const bool fitting = answer.cost.peak_bytes <= budgets_.device && answer.cost.host_peak_bytes <= budgets_.host;
      if (fitting && answer.cost.added_ns() < best_.best.cost.added_ns()) return search(std::move(whole_));
    }
    return {};
  }

  Status search(std::unique_ptr<decide::RankProblem> problem) {
    if (in_.request.step && in_.request.step->frontier && problem->is_flat())
      plan_.frontier = problem->flat(decide::flat::StepRule::optimal).frontier();
    TargetLoop loop(in_, *problem, budgets_, plan_);
    if (Status s = loop.run(); !s) return s;
    short_of_host_ = loop.best().host_height() > budgets_.host;
    over_bytes_ = loop.best().height() - budgets_.device;
    if (best_.problem != nullptr && !is_better(loop.best(), best_.best, budgets_)) return {};
    const double bound_ns = loop.bound_ns() ? *loop.bound_ns() : lower_bound(*problem, budgets_);
    best_ = {.problem = std::move(problem), .best = std::move(loop.best()), .bound_ns = bound_ns};
    return {};
  }

  const RankRequest& in_;
  const Budgets& budgets_;
  RankPlan& plan_;
  std::unique_ptr<decide::RankProblem> whole_;  ///< with all state on the device, until it is searched
  Tried best_;
  bool short_of_host_ = false;  ///< at the last choice tried, as is the next
  Bytes over_bytes_ = 0;        ///< what was missing on the device; at most 0: nothing
};

}  // namespace

Result<RankPlan> plan_rank(Graph graph, const RankRequest& in) {
  RankPlan plan{.graph = std::move(graph)};
  plan.liveness = graph_build::analyse_liveness(plan.graph);
  const Budgets budgets = budgets_of(in.request);
  OffloadLoop loop(in, budgets, plan);
  if (Status s = loop.run(); !s) return s.error();
  decide::RankProblem& problem = *loop.best().problem;
  Built& best = loop.best().best;
  const double bound_ns = loop.best().bound_ns;
  fill_figures(in, problem, best, budgets, bound_ns, plan);
  if (!plan.figures.fits)
    if (Status s = explain_misfit(in, problem, budgets, best, plan); !s) return s.error();

  Program& program = plan.program;
  program.schedule = std::move(best.schedule);
  plan.decisions = decisions_of(plan.graph, program.schedule);
  program.layout = std::move(best.layout);
  program.layout.arenas.front().dynamic_bytes =
      std::max<Bytes>(0, budgets.device - program.layout.arenas.front().height_bytes);
  program.estimate_ns =
      schedule::task_durations(plan.graph, program.schedule, in.request.machine, in.request.time_scale);
  plan.task_ns = program.estimate_ns;
  program.graph_fingerprint = fingerprint(plan.graph);
  program.machine_fingerprint = fingerprint(in.request.machine);
  schedule::add_program_rows(plan.graph, program);
  if (plan.figures.fits && program.routed.empty())
    program.contingency_limit_f = program.collective_limit_f = ladder::DynamicBound::kMostLoad;
  else if (plan.figures.fits)
    ladder::add_contingencies(
        problem.sites(), decide::sites::choice_of(problem.sites(), best.plan),
        {.load = in.load, .host_budget = budgets.host, .chunk_dispatch = in.request.chunk_dispatch}, program);
  else
    program.contingency_limit_f = program.collective_limit_f = 0;
  plan.figures.host_bytes += program.layout.arenas[1].dynamic_bytes;
  plan.figures.contingency_limit_f = program.contingency_limit_f;
  plan.figures.collective_limit_f = program.collective_limit_f;
  if (Status s = verify(plan.graph, program); !s) return s.error();
  return plan;
}

}  // namespace tidemark::plan
