// Question: what do steps cost whose loads are not those that the plan was made for, and does every one complete?
//
//   any_load_bench [--model FILE] [--imbalance F | --fit N] [--family NAME] [--steps N] [--exact N] [--races N] [--seed
//   N]
//       --imbalance F   that the plan is made for; default: as the job says
//       --fit N         the job's load model is fitted to the N steps of the family before those played, as
//                       --imbalance-from does; all loads at 1.1 are played by that plan too
//       --family NAME   default: own, persistent, hotspot, cold-start, and all loads at 1.1 ("usual")
//       --steps N       a family (default 1), each played by every device of the expert group
//       --exact N       device-steps of each step that are compared with a plan of their own (default 1)
//       --races N       steps of these under the race checker (default 0)
//
// Simulated: all ranks of the pipeline in one virtual time on `sim`, true sizes; devices of a group agree on chunks.
// Ops take the time of the fullest device of the group, memory is the device's own. Memory: some 8 MB a rank and
// device.
//
//   memory   beyond the same plan at the same loads, did all that exceeds it find room (modelled)
//   extra    beyond all ranks planned anew for exactly these loads, and played: what not knowing them costs
//
// Exit status 1 if a step was refused or raced.

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/job_request.h"
#include "integrations/run/sim_run.h"
#include "integrations/run/trace_run.h"
#include "planner/cost/op_prices.h"
#include "planner/graph_build/load_draws.h"
#include "planner/graph_build/load_fit.h"
#include "planner/graph_build/site_loads.h"
#include "planner/graph_build/step_graph.h"
#include "planner/planner.h"
#include "planner/rank_planner.h"
#include "planner/simulate/simulator.h"
#include "policies/policies.h"

namespace tidemark {
namespace {

using bench::must;

/// The load at which insurance is priced.
constexpr double kUsualLoad = 1.1;

struct Ask {
  std::string model = std::string(TIDEMARK_SOURCE_DIR) + "/models/pangu-ultra-moe-718b.yaml";
  std::string family;
  double imbalance = 0;
  int steps = 1, exact = 1, races = 0, seed = 1, fit = 0;
};

/// Everything that the rows share.
struct Job {
  plan::PlanRequest request;
  graph_build::LoadShape shape;
  graph_build::ExpertLoadSpec own_load;  ///< as the job states it
  plan::PlanOutcome plan;
  std::vector<Graph> graphs;  ///< of the ranks, everything kept
};

graph_build::LoadDraws draws_of(const Ask& ask, const Job& job, graph_build::LoadFamily family) {
  return {job.shape, family, job.own_load, static_cast<std::uint64_t>(ask.seed)};
}

void fit_loads(const Ask& ask, Job& job) {
  const auto family = std::ranges::find(graph_build::kLoadFamilyNames, ask.family);
  if (family == std::ranges::end(graph_build::kLoadFamilyNames)) {
    fmt::print(stderr, "any_load_bench: --fit: nothing is fitted to {}; give a family\n", ask.family);
    std::exit(2);
  }
  const graph_build::LoadDraws draws = draws_of(
      ask, job, static_cast<graph_build::LoadFamily>(family - std::ranges::begin(graph_build::kLoadFamilyNames)));
  graph_build::LoadFitter fitter(
      {.layers = std::ssize(job.shape.layers), .micro_batches = job.shape.micro_batches, .devices = job.shape.devices});
  for (std::int64_t step = 0; step < ask.fit; ++step) {
    const std::vector<std::int64_t> rows = draws.rows(step);
    std::vector<double> loads;
    for (const std::int64_t count : rows)
      loads.push_back(static_cast<double>(count) / static_cast<double>(job.shape.mean_rows));
    fitter.add(loads);
  }
  job.request.job.expert_load = graph_build::spec_of(fitter.fit().model, job.own_load);
}

Job plan_job(const Ask& ask) {
  Job job;
  job.request = bench::job_request(ask.model);
  job.own_load = job.request.job.expert_load;
  if (ask.imbalance > 0) job.request.load = ask.imbalance;
  job.shape = must(graph_build::load_shape(job.request.job, job.request.machine));
  if (ask.fit > 0) fit_loads(ask, job);
  job.plan = must(plan::plan_step(job.request));
  for (std::int32_t rank = 0; rank < std::ssize(job.plan.ranks); ++rank)
    job.graphs.push_back(must(graph_build::build_step_graph(job.request.job, job.request.machine, rank, 1.0)));
  run::charge_copies(job.plan, job.request.machine);
  return job;
}

/// All ranks planned for exactly the loads of the device, and played: the step.
Result<std::int64_t> exact_step_ns(const Job& job, const run::StepLoads& loads, std::int64_t device) {
  const std::size_t ranks = job.plan.ranks.size();
  std::vector<Graph> graphs(ranks);
  std::vector<std::vector<std::int64_t>> op_ns(ranks);
  std::vector<simulate::RankWork> kept(ranks);
  tbb::parallel_for(std::size_t{0}, ranks, [&](std::size_t r) {
    graphs[r] = job.graphs[r];
    graph_build::set_site_loads(graphs[r], [&](const Site& site) -> graph_build::BuiltLoad {
      return {.own = loads.site(site.layer, site.micro_batch, device),
              .fullest = loads.fullest(site.layer, site.micro_batch)};
    });
    op_ns[r] = cost::op_durations(graphs[r], job.request.machine, job.request.time_scale);
    kept[r] = simulate::work_of(graphs[r], op_ns[r]);
  });
  const Result<simulate::StepTiming> nominal = simulate::simulate_step(kept);
  if (!nominal) return nominal.error();
  plan::PlanOutcome outcome;
  outcome.ranks.resize(ranks);
  std::vector<Status> failed(ranks);
  tbb::parallel_for(std::size_t{0}, ranks, [&](std::size_t r) {
    Result<plan::RankPlan> planned = plan::plan_rank(std::move(graphs[r]), {.request = job.request,
                                                                            .nominal = nominal.value().ranks[r],
                                                                            .op_ns = std::move(op_ns[r]),
                                                                            .load = job.plan.ranks[r].figures.load});
    if (!planned)
      failed[r] = planned.error();
    else if (!planned.value().figures.fits)
      failed[r] = infeasible("planned for its loads it does not fit");
    else
      outcome.ranks[r] = std::move(planned).value();
  });
  for (const Status& status : failed)
    if (!status) return status.error();
  run::charge_copies(outcome, job.request.machine);
  const auto site_of = [&](std::int32_t rank, SiteId id) -> const Site& {
    return outcome.ranks[static_cast<std::size_t>(rank)].graph.sites[row(id)];
  };
  const Result<run::SimRun> run = run::run_on_sim(
      {.ranks = outcome.ranks,
       .machine = job.request.machine,
       .check_races = false,
       .measure_stall = false,
       .load = [&](std::int32_t rank, SiteId id) { return site_of(rank, id).loads(); },
       .fullest = [&](std::int32_t rank,
                      SiteId id) { return loads.fullest(site_of(rank, id).layer, site_of(rank, id).micro_batch); }});
  if (!run) return run.error();
  return run.value().step_ns;
}

/// Percent of something, over steps.
class Percents {
 public:
  void add(std::int64_t ns, std::int64_t of) {
    values_.push_back(100.0 * static_cast<double>(ns - of) / static_cast<double>(of));
  }
  [[nodiscard]] std::string mean() const {
    if (values_.empty()) return "-";
    double sum = 0;
    for (const double value : values_) sum += value;
    return fmt::format("{:+.3f}", sum / static_cast<double>(values_.size()));
  }
  [[nodiscard]] std::string quantile(double q) const {
    if (values_.empty()) return "-";
    std::vector<double> sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    const double at = std::ceil(q * static_cast<double>(sorted.size())) - 1;
    return fmt::format("{:+.3f}", sorted[static_cast<std::size_t>(std::max(0.0, at))]);
  }
  [[nodiscard]] std::size_t count() const { return values_.size(); }

 private:
  std::vector<double> values_;
};

struct Row {
  std::int64_t steps = 0, refused = 0, races = 0;  ///< device-steps
  run::RungCounts rungs{};
  std::int64_t steps_with_chunks = 0;
  Percents memory, exact;
  std::string first;  ///< refusal or race
};

class Bench {
 public:
  Bench(const Ask& ask, const Job& job) : ask_(ask), job_(job) {}

  /// False: a step was refused or raced.
  [[nodiscard]] bool play_family(graph_build::LoadFamily family) {
    const graph_build::LoadDraws draws = draws_of(ask_, job_, family);
    return play(graph_build::kLoadFamilyNames[static_cast<std::size_t>(family)], ask_.steps,
                [&](std::int64_t step) { return run::StepLoads::of_rows(draws.rows(ask_.fit + step), job_.shape); });
  }
  [[nodiscard]] bool play_usual() {
    const auto rows = static_cast<std::int64_t>(std::llround(kUsualLoad * static_cast<double>(job_.shape.mean_rows)));
    const std::size_t count =
        job_.shape.layers.size() * static_cast<std::size_t>(job_.shape.micro_batches * job_.shape.devices);
    return play(fmt::format("all {}", kUsualLoad), 1, [&](std::int64_t) {
      return run::StepLoads::of_rows(std::vector<std::int64_t>(count, rows), job_.shape);
    });
  }
  static void print_head() {
    fmt::print("{:>12} {:>12} {:>7} {:>6} {:>8} {:>8} {:>8} {:>9} | {:>8} {:>8} {:>8} | {:>6} {:>8} {:>8}\n", "family",
               "device-steps", "refused", "races", "room", "spill", "chunks", "in chunks", "memory %", "p99", "worst",
               "exact", "extra %", "worst");
  }

 private:
  template <class Draw>
  [[nodiscard]] bool play(std::string_view name, std::int64_t steps, const Draw& draw) {
    Row row;
    std::optional<run::TraceRun> plain, checked;
    for (std::int64_t step = 0; step < steps; ++step) {
      const run::StepLoads loads = draw(step);
      const bool races = step < ask_.races;
      if (!races) checked.reset();  // as much memory again
      std::optional<run::TraceRun>& trace = races ? checked : plain;
      if (!trace)
        trace.emplace(must(run::TraceRun::open(job_.plan, job_.request.machine, job_.shape, {.check_races = races})));
      for (const run::TracedStep& played : must(trace->play(step, loads))) {
        add(played, row);
        if (is_compared(played.device)) compare(loads, played, row);
      }
      fmt::print(stderr, "any_load_bench: {}: {} of {} steps, {} refused, memory {} % so far\n", name, step + 1, steps,
                 row.refused, row.memory.mean());
    }
    print(name, row);
    return row.refused == 0 && row.races == 0;
  }
  /// Spreads what is asked for over the devices.
  [[nodiscard]] bool is_compared(std::int64_t device) const {
    return device * ask_.exact / job_.shape.devices != (device + 1) * ask_.exact / job_.shape.devices;
  }

  static void add(const run::TracedStep& step, Row& row) {
    const auto say = [&](const std::string& what) {
      if (row.first.empty()) row.first = fmt::format("step {}, device {}: {}", step.step, step.device, what);
    };
    ++row.steps;
    row.races += step.races;
    if (step.races > 0) say(step.first_race);
    for (std::size_t k = 0; k < row.rungs.size(); ++k) row.rungs[k] += step.rungs[k];
    row.steps_with_chunks += step.rungs[static_cast<std::size_t>(run::Rung::chunks)] > 0 ? 1 : 0;
    if (step.refused.empty()) {
      row.memory.add(step.step_ns, step.loads_ns);
    } else {
      ++row.refused;
      if (!step.refused_after) say(step.refused);
    }
  }
  void compare(const run::StepLoads& loads, const run::TracedStep& step, Row& row) const {
    if (!step.refused.empty()) return;
    const Result<std::int64_t> exact = exact_step_ns(job_, loads, step.device);
    if (exact) row.exact.add(step.step_ns, exact.value());
  }

  static void print(std::string_view name, const Row& row) {
    const auto a_step = [&](run::Rung rung) {
      return fmt::format(
          "{:.2f}", static_cast<double>(row.rungs[static_cast<std::size_t>(rung)]) / static_cast<double>(row.steps));
    };
    fmt::print("{:>12} {:>12} {:>7} {:>6} {:>8} {:>8} {:>8} {:>9} | {:>8} {:>8} {:>8} | {:>6} {:>8} {:>8}\n", name,
               row.steps, row.refused, row.races, a_step(run::Rung::room), a_step(run::Rung::spill),
               a_step(run::Rung::chunks), row.steps_with_chunks, row.memory.mean(), row.memory.quantile(0.99),
               row.memory.quantile(1), row.exact.count(), row.exact.mean(), row.exact.quantile(1));
    if (!row.first.empty()) fmt::print("             the first: {}\n", row.first);
    std::fflush(stdout);
  }

  Ask ask_;
  const Job& job_;
};

bool run_bench(const Ask& ask) {
  const Job job = plan_job(ask);
  fmt::print(
      "{} on simulated {}: {} steps a family on {} devices of {} ranks each, {} of them under the race checker; rungs "
      "a "
      "device-step; simulated times\n",
      job.request.job.model.name, job.request.machine.name, ask.steps, job.shape.devices, job.plan.ranks.size(),
      ask.races);
  const auto [low, high] =
      std::ranges::minmax_element(job.plan.ranks, {}, [](const plan::RankPlan& rank) { return rank.figures.load; });
  fmt::print(
      "memory for f {:.2f} to {:.2f}, time for {:.2f}, step {:.3f} s, with everything kept {:.3f} s (modelled)\n",
      low->figures.load, high->figures.load, job.plan.step.fullest_load,
      1e-9 * static_cast<double>(job.plan.step.step_ns), 1e-9 * static_cast<double>(job.plan.step.keep_all_step_ns));
  Bench bench(ask, job);
  Bench::print_head();
  bool ok = true;
  for (std::size_t f = 0; f < graph_build::kLoadFamilyNames.size(); ++f) {
    const std::string_view name = graph_build::kLoadFamilyNames[f];
    const bool asked =
        ask.family.empty() ? f <= static_cast<std::size_t>(graph_build::LoadFamily::cold_start) : ask.family == name;
    if (asked) ok = bench.play_family(static_cast<graph_build::LoadFamily>(f)) && ok;
  }
  if (ask.family.empty() || ask.family == "usual" || ask.fit > 0) ok = bench.play_usual() && ok;
  return ok;
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  tidemark::Ask ask;
  CLI::App app("Steps of any load, beside plans made for them");
  app.add_option("--model", ask.model);
  CLI::Option* family = app.add_option("--family", ask.family)->check([](const std::string& name) {
    const bool known = name == "usual" || std::ranges::find(tidemark::graph_build::kLoadFamilyNames, name) !=
                                              std::ranges::end(tidemark::graph_build::kLoadFamilyNames);
    return known ? std::string() : "no family of loads is called " + name;
  });
  CLI::Option* imbalance = app.add_option("--imbalance", ask.imbalance);
  app.add_option("--fit", ask.fit)->check(CLI::PositiveNumber)->excludes(imbalance)->needs(family);
  app.add_option("--steps", ask.steps)->check(CLI::Range(1, 1'000'000));
  app.add_option("--exact", ask.exact)->check(CLI::NonNegativeNumber);
  app.add_option("--races", ask.races)->check(CLI::NonNegativeNumber);
  app.add_option("--seed", ask.seed);
  CLI11_PARSE(app, argc, argv);
  return tidemark::run_bench(ask) ? 0 : 1;
}
