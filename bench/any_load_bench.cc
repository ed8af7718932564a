// Question: what do steps cost whose loads are not those that the plan was made for, and does every one complete?
//
//   any_load_bench [--model FILE] [--imbalance F] [--family NAME] [--rank N] [--steps N] [--exact N] [--races N]
//   [--seed N]
//       --imbalance F   that the plan is made for; default: as the job says
//       --steps N   a rank and family, each played by every device of the expert group (default 2)
//       --exact N   device-steps of these that are compared with a plan of their own (default 4)
//       --races N   steps of these under the race checker (default 1)
//
// Simulated: every device-step runs through the executor on `sim`, true sizes, one rank of the pipeline alone (receives
// complete at once). Devices of a group agree on chunks. Ops take the time of the fullest device of the group, memory
// is the device's own.
//
//   modelled   the same plan at the same loads, did all that exceeds it find room: what memory costs is played less
//   this exact      the rank planned anew for exactly these loads, and played: what not knowing them costs
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

#include "integrations/formats/file.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/run/sim_run.h"
#include "integrations/run/trace_run.h"
#include "planner/cost/cost_model.h"
#include "planner/graph_build/load_draws.h"
#include "planner/graph_build/site_loads.h"
#include "planner/graph_build/step_graph.h"
#include "planner/planner.h"
#include "planner/rank_planner.h"
#include "planner/simulate/keep_all_step.h"
#include "policies/policies.h"

namespace tidemark {
namespace {

/// The load at which insurance is priced.
constexpr double kUsualLoad = 1.1;

struct Ask {
  std::string model = std::string(TIDEMARK_SOURCE_DIR) + "/models/pangu-ultra-moe-718b.yaml";
  std::string family;
  double imbalance = 0;
  int rank = -1, steps = 2, exact = 4, races = 1, seed = 1;
};

template <class T>
T must(Result<T> result) {
  if (result) return std::move(result).value();
  fmt::print(stderr, "any_load_bench: {}\n", result.error().message);
  std::exit(2);
}

/// Everything that the rows share.
struct Job {
  plan::PlanRequest request;
  graph_build::LoadShape shape;
  plan::PlanOutcome plan;
  simulate::KeepAllStep nominal;  ///< at the loads that the ranks are planned for
};

Job plan_job(const Ask& ask) {
  Job job;
  job.request.job = must(formats::read_job(must(formats::read_file(ask.model)), ask.model));
  const std::string device = std::string(TIDEMARK_SOURCE_DIR) + "/devices/" + job.request.job.device + ".yaml";
  job.request.machine = must(formats::read_machine(must(formats::read_file(device)), device));
  job.request.policy = policies::find_policy("optimal");
  if (ask.imbalance > 0) job.request.load = ask.imbalance;
  job.shape = must(graph_build::load_shape(job.request.job, job.request.machine));
  job.plan = must(plan::plan_step(job.request));
  std::vector<double> loads;
  for (const plan::RankPlan& rank : job.plan.ranks) loads.push_back(rank.figures.load);
  job.nominal = must(simulate::keep_all_step(job.request.job, job.request.machine, loads, job.request.time_scale));
  run::charge_copies(job.plan, job.request.machine);
  return job;
}

/// The rank planned for exactly the loads of the device, and played: its step.
Result<std::int64_t> exact_step_ns(const Job& job, std::int32_t rank, const run::StepLoads& loads,
                                   std::int64_t device) {
  const auto r = static_cast<std::size_t>(rank);
  Graph graph = job.nominal.graphs[r];
  graph_build::set_site_loads(graph, [&](const Site& site) { return loads.at(site.layer, site.micro_batch, device); });
  std::vector<std::int64_t> op_ns = cost::op_durations(graph, job.request.machine, job.request.time_scale);
  Result<plan::RankPlan> planned = plan::plan_rank(std::move(graph), {.request = job.request,
                                                                      .nominal = job.nominal.timing.ranks[r],
                                                                      .op_ns = std::move(op_ns),
                                                                      .load = job.plan.ranks[r].figures.load});
  if (!planned) return planned.error();
  if (!planned.value().figures.fits) return infeasible("planned for its loads it does not fit");
  plan::PlanOutcome outcome;
  outcome.ranks.push_back(std::move(planned).value());
  run::charge_copies(outcome, job.request.machine);
  const std::vector<Site>& sites = outcome.ranks.front().graph.sites;
  const Result<run::SimRun> run = run::run_on_sim(
      {.ranks = outcome.ranks,
       .machine = job.request.machine,
       .check_races = false,
       .match_messages = false,
       .measure_stall = false,
       .load = [&](std::int32_t, SiteId id) { return static_cast<double>(sites[row(id)].load); },
       .fullest = [&](std::int32_t,
                      SiteId id) { return loads.fullest(sites[row(id)].layer, sites[row(id)].micro_batch); }});
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
    const graph_build::LoadDraws draws(job_.shape, family, job_.request.job.expert_load,
                                       static_cast<std::uint64_t>(ask_.seed));
    const auto name = std::string(graph_build::kLoadFamilyNames[static_cast<std::size_t>(family)]);
    return play_ranks(name, [&](std::int64_t step) { return run::StepLoads::of_rows(draws.rows(step), job_.shape); });
  }
  [[nodiscard]] bool play_usual() {
    const auto rows = static_cast<std::int64_t>(std::llround(kUsualLoad * static_cast<double>(job_.shape.mean_rows)));
    const std::size_t count =
        job_.shape.layers.size() * static_cast<std::size_t>(job_.shape.micro_batches * job_.shape.devices);
    Ask one = ask_;
    one.steps = one.exact = one.races = 1;
    return Bench(one, job_).play_ranks(fmt::format("all {}", kUsualLoad), [&](std::int64_t) {
      return run::StepLoads::of_rows(std::vector<std::int64_t>(count, rows), job_.shape);
    });
  }
  static void print_head() {
    fmt::print("{:>12} {:>4} {:>7} {:>7} {:>6} {:>8} {:>8} {:>8} {:>9} | {:>8} {:>8} {:>8} | {:>6} {:>8} {:>8} {:>8}\n",
               "family", "rank", "steps", "refused", "races", "room", "spill", "chunks", "in chunks", "memory %", "p99",
               "worst", "exact", "extra %", "p99", "worst");
  }

 private:
  template <class Draw>
  [[nodiscard]] bool play_ranks(const std::string& name, const Draw& draw) {
    std::vector<Row> rows(job_.plan.ranks.size());
    tbb::parallel_for(std::size_t{0}, rows.size(), [&](std::size_t r) {
      if (ask_.rank < 0 || static_cast<std::size_t>(ask_.rank) == r)
        rows[r] = play_rank(static_cast<std::int32_t>(r), draw);
    });
    bool ok = true;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (rows[r].steps == 0) continue;
      print(name, r, rows[r]);
      ok = ok && rows[r].refused == 0 && rows[r].races == 0;
    }
    return ok;
  }

  template <class Draw>
  [[nodiscard]] Row play_rank(std::int32_t rank, const Draw& draw) const {
    Row row;
    if (!has_experts(rank)) return row;
    const auto open = [&](bool races) {
      return must(
          run::TraceRun::open(job_.plan, job_.request.machine, job_.shape, {.rank = rank, .check_races = races}));
    };
    std::optional<run::TraceRun> plain, checked;
    const std::int64_t all = ask_.steps * job_.shape.devices;
    for (std::int64_t step = 0; step < ask_.steps; ++step) {
      const run::StepLoads loads = draw(step);
      std::optional<run::TraceRun>& trace = is_nth(step, ask_.races, ask_.steps) ? checked : plain;
      if (!trace) trace.emplace(open(&trace == &checked));
      for (const run::TracedStep& played : must(trace->play(step, loads))) {
        add(rank, played, row);
        if (is_nth(row.steps++, ask_.exact, all)) compare(rank, loads, played, row);
      }
    }
    return row;
  }
  /// Spreads `count` over `all`.
  [[nodiscard]] static bool is_nth(std::int64_t n, std::int64_t count, std::int64_t all) {
    return n * count / all != (n + 1) * count / all;
  }
  [[nodiscard]] bool has_experts(std::int32_t rank) const {
    return !job_.plan.ranks[static_cast<std::size_t>(rank)].program.routed.empty();
  }

  static void add(std::int32_t rank, const run::TracedStep& step, Row& row) {
    const auto say = [&](const std::string& what) {
      if (row.first.empty())
        row.first = fmt::format("rank {}, step {}, device {}: {}", rank, step.step, step.device, what);
    };
    row.races += step.races;
    if (step.races > 0) say(step.first_race);
    for (std::size_t k = 0; k < row.rungs.size(); ++k) row.rungs[k] += step.rungs[k];
    row.steps_with_chunks += step.rungs[static_cast<std::size_t>(run::Rung::chunks)] > 0 ? 1 : 0;
    if (step.refused.empty()) {
      row.memory.add(step.step_ns, step.as_planned_ns);
    } else {
      ++row.refused;
      say(step.refused);
    }
  }
  void compare(std::int32_t rank, const run::StepLoads& loads, const run::TracedStep& step, Row& row) const {
    if (!step.refused.empty()) return;
    const Result<std::int64_t> exact = exact_step_ns(job_, rank, loads, step.device);
    if (exact) row.exact.add(step.step_ns, exact.value());
  }

  static void print(const std::string& name, std::size_t rank, const Row& row) {
    const auto a_step = [&](run::Rung rung) {
      return fmt::format(
          "{:.2f}", static_cast<double>(row.rungs[static_cast<std::size_t>(rung)]) / static_cast<double>(row.steps));
    };
    fmt::print("{:>12} {:>4} {:>7} {:>7} {:>6} {:>8} {:>8} {:>8} {:>9} | {:>8} {:>8} {:>8} | {:>6} {:>8} {:>8} {:>8}\n",
               name, rank, row.steps, row.refused, row.races, a_step(run::Rung::room), a_step(run::Rung::spill),
               a_step(run::Rung::chunks), row.steps_with_chunks, row.memory.mean(), row.memory.quantile(0.99),
               row.memory.quantile(1), row.exact.count(), row.exact.mean(), row.exact.quantile(0.99),
               row.exact.quantile(1));
    if (!row.first.empty()) fmt::print("             the first: {}\n", row.first);
    std::fflush(stdout);
  }

  Ask ask_;
  const Job& job_;
};

bool run_bench(const Ask& ask) {
  const Job job = plan_job(ask);
  fmt::print(
      "{} on simulated {}, {} a rank and family, {} of them under the race checker; rungs a step; simulated times\n",
      job.request.job.model.name, job.request.machine.name, ask.steps, ask.races);
  Bench bench(ask, job);
  Bench::print_head();
  bool ok = true;
  for (std::size_t f = 0; f < graph_build::kLoadFamilyNames.size(); ++f) {
    const std::string_view name = graph_build::kLoadFamilyNames[f];
    const bool asked =
        ask.family.empty() ? f <= static_cast<std::size_t>(graph_build::LoadFamily::cold_start) : ask.family == name;
    if (asked) ok = bench.play_family(static_cast<graph_build::LoadFamily>(f)) && ok;
  }
  if (ask.family.empty() || ask.family == "usual") ok = bench.play_usual() && ok;
  return ok;
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  tidemark::Ask ask;
  CLI::App app("Steps of any load, beside plans made for them");
  app.add_option("--model", ask.model);
  app.add_option("--family", ask.family);
  app.add_option("--imbalance", ask.imbalance);
  app.add_option("--rank", ask.rank);
  app.add_option("--steps", ask.steps)->check(CLI::Range(1, 1'000'000));
  app.add_option("--exact", ask.exact)->check(CLI::NonNegativeNumber);
  app.add_option("--races", ask.races)->check(CLI::NonNegativeNumber);
  app.add_option("--seed", ask.seed);
  CLI11_PARSE(app, argc, argv);
  return tidemark::run_bench(ask) ? 0 : 1;
}
