// Question: how long does `tidemark plan` take end to end (YAML in, all ranks planned, packed, checked and written as
// plan.json), and how does that grow with the work?
// Workloads: the 718B job as shipped; the same with 2, 5 and 10 times the micro-batches; with 2, 5 and 10 times the
// layers; with a load of its own for every layer and micro-batch (0.75 to 1.25 times 1.23, even, seeded; its ranks are
// planned, not written), once and ten times. Bound: 1 s and 500 MB on 2 cores for the shipped job; growth linear in
// (layers x micro-batches); what ranks add, in sum, grows no faster. Method: median of `repeats` runs in a child per
// run, wall clock, processor time and peak resident memory.

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/job_request.h"
#include "integrations/formats/file.h"
#include "integrations/formats/program_file.h"
#include "planner/cost/op_prices.h"
#include "planner/graph_build/site_loads.h"
#include "planner/graph_build/step_graph.h"
#include "planner/planner.h"
#include "planner/rank_planner.h"
#include "planner/simulate/simulator.h"

namespace tidemark {
namespace {

struct Row {
  double seconds = 0;
  double cpu_seconds = 0;
  double file_mb = 0;
  double peak_mb = 0;
  std::int64_t tasks = 0;
  std::int64_t residencies = 0;
  double added_ms = 0;  ///< of all ranks
  bool fits = false;
};

struct Workload {
  const char* what = "";
  std::int32_t micro_batches = 1, layers = 1;  ///< times those of the job
  bool draws_loads = false;
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Layers x factor, dealt to the slots they were in; there is still one MTP slot.
void multiply_layers(graph_build::JobSpec& job, std::int32_t factor) {
  std::vector<graph_build::LayerKind> kinds;
  std::int32_t next = 0;
  for (std::size_t chunk = 0; chunk < job.parallel.slots.front().size(); ++chunk)
    for (auto& rank : job.parallel.slots) {
      std::vector<graph_build::Slot> slots;
      for (const graph_build::Slot& slot : rank[chunk]) {
        if (slot.kind != graph_build::Slot::Kind::layer) {
          slots.push_back(slot);
          continue;
        }
        for (std::int32_t i = 0; i < factor; ++i) {
          kinds.push_back(job.model.layers[static_cast<std::size_t>(slot.layer)]);
          slots.push_back({.kind = graph_build::Slot::Kind::layer, .layer = next++});
        }
      }
      rank[chunk] = std::move(slots);
    }
  job.model.layers = std::move(kinds);
}

/// Every rank, with loads drawn for its layers and micro-batches.
std::vector<plan::RankPlan> plan_drawn_loads(plan::PlanRequest& request) {
  constexpr double kMean = 1.23, kLeast = 0.75, kSpread = 0.5;
  request.load = kMean;
  const auto ranks = static_cast<std::size_t>(request.job.parallel.pipeline);
  std::vector<Graph> graphs;
  std::vector<std::vector<std::int64_t>> op_ns;
  std::vector<simulate::RankWork> work;
  for (std::size_t r = 0; r < ranks; ++r) {
    graphs.push_back(
        bench::must(graph_build::build_step_graph(request.job, request.machine, static_cast<std::int32_t>(r), kMean)));
    std::mt19937_64 random(r);
    std::map<std::pair<std::int32_t, std::int32_t>, double> drawn;
    graph_build::set_site_loads(graphs[r], [&](const Site& site) {
      const auto [at, fresh] = drawn.try_emplace({site.layer, site.micro_batch}, 0.0);
      if (fresh) at->second = kMean * (kLeast + kSpread * static_cast<double>(random() >> 11) * 0x1p-53);
      return graph_build::built_load(request.job, request.machine, at->second);
    });
    op_ns.push_back(cost::op_durations(graphs[r], request.machine, request.time_scale));
    work.push_back(simulate::work_of(graphs[r], op_ns[r]));
  }
  const simulate::StepTiming nominal = bench::must(simulate::simulate_step(work));
  std::vector<plan::RankPlan> plans;
  for (std::size_t r = 0; r < ranks; ++r)
    plans.push_back(bench::must(plan::plan_rank(
        std::move(graphs[r]),
        {.request = request, .nominal = nominal.ranks[r], .op_ns = std::move(op_ns[r]), .load = kMean})));
  return plans;
}

Row run_once(const std::string& model, const std::string& device, const Workload& load) {
  const double cpu = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  plan::PlanRequest request = bench::job_request(model, device);
  request.job.parallel.global_batch *= load.micro_batches;
  if (load.layers > 1) {
    multiply_layers(request.job, load.layers);
    // Ten times the layers do not fit any budget of the real device: memory grows with them, so that the decision stays
    // as tight.
    request.budget_bytes = request.machine.visible_bytes * load.layers;
    request.host_budget_bytes = request.machine.host_bytes_per_device * load.layers;
  }
  Row row;
  std::vector<plan::RankPlan> ranks;
  if (load.draws_loads) {
    ranks = plan_drawn_loads(request);
  } else {
    Result<plan::PlanOutcome> outcome = plan::plan_step(request);
    if (!outcome) {
      fmt::print(stderr, "{}\n", outcome.error().message);
      std::exit(3);
    }
    const std::string file = formats::write_plan_file(request, outcome.value());
    const std::string path = fmt::format("/tmp/tidemark_plan_bench.{}.json", getpid());
    if (Status s = formats::write_file(path, file); !s) std::exit(3);
    unlink(path.c_str());
    row.file_mb = static_cast<double>(file.size()) * 1e-6;
    ranks = std::move(outcome.value().ranks);
  }
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  row.cpu_seconds = cpu_seconds() - cpu;
  row.fits = true;
  for (const plan::RankPlan& r : ranks) {
    row.tasks += static_cast<std::int64_t>(r.program.schedule.tasks.size());
    row.residencies += static_cast<std::int64_t>(r.program.schedule.residencies.size());
    row.added_ms += static_cast<double>(r.figures.added_ns) * 1e-6;
    row.fits = row.fits && r.figures.fits;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  row.peak_mb = static_cast<double>(usage.ru_maxrss) * 1024e-6;
  return row;
}

/// A fresh process per run, so that peak memory and first-touch costs are those of a user's run.
Row run_in_child(const std::string& model, const std::string& device, const Workload& load) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(3);
  const pid_t child = fork();
  if (child == 0) {
    const Row row = run_once(model, device, load);
    const bool sent = write(ends[1], &row, sizeof row) == static_cast<ssize_t>(sizeof row);
    _exit(sent ? 0 : 3);
  }
  close(ends[1]);
  Row row;
  const bool got = read(ends[0], &row, sizeof row) == static_cast<ssize_t>(sizeof row);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!got || status != 0) std::exit(3);
  return row;
}

void report(const Workload& load, const std::string& model, const std::string& device, int repeats,
            double& base_ns_per_task) {
  std::vector<Row> rows;
  for (int i = 0; i < repeats; ++i) rows.push_back(run_in_child(model, device, load));
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.cpu_seconds < b.cpu_seconds; });
  const Row& r = rows[rows.size() / 2];
  const double ns_per_task = 1e9 * r.cpu_seconds / static_cast<double>(r.tasks);
  if (base_ns_per_task <= 0) base_ns_per_task = ns_per_task;
  const std::string what = fmt::format("{}{}", load.what, std::max(load.micro_batches, load.layers));
  fmt::print("{:28} {:>9} {:>11} {:>8.3f} {:>8.3f} {:>9.1f} {:>9.1f} {:>9.0f} {:>7.2f}x {:>9.0f} {:>5}\n", what,
             r.tasks, r.residencies, r.seconds, r.cpu_seconds, r.peak_mb, r.file_mb, ns_per_task,
             ns_per_task / base_ns_per_task, r.added_ms, r.fits ? "yes" : "no");
  std::fflush(stdout);
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  const std::string root = TIDEMARK_SOURCE_DIR;
  const std::string model = root + "/models/pangu-ultra-moe-718b.yaml", device = root + "/devices/ascend-910b-64g.yaml";
  fmt::print("{:28} {:>9} {:>11} {:>8} {:>8} {:>9} {:>9} {:>9} {:>8} {:>9} {:>5}\n", "job", "tasks", "residencies",
             "wall s", "cpu s", "peak MB", "file MB", "ns/task", "growth", "added ms", "fits");
  using tidemark::Workload;
  double base = 0;
  tidemark::report({.what = "718B as shipped x "}, model, device, repeats, base);
  for (const std::int32_t times : {2, 5, 10})
    tidemark::report({.what = "micro-batches x ", .micro_batches = times}, model, device, 1, base);
  for (const std::int32_t times : {2, 5, 10})
    tidemark::report({.what = "layers x ", .layers = times}, model, device, 1, base);
  double drawn = 0;
  for (const std::int32_t times : {1, 10})
    tidemark::report({.what = "loads drawn, micro-batches x ", .micro_batches = times, .draws_loads = true}, model,
                     device, times == 1 ? repeats : 1, drawn);
  fmt::print(
      "bound for the first row: 1 s wall, 500 MB; growth is processor time per task against the first row of its kind "
      "(1.00x: linear)\n");
  return 0;
}
