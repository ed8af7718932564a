// Question: how long does `tidemark plan` take end to end (YAML in, all ranks planned, packed, checked and written as
// plan.json), and how does that grow with the work?
// Workloads: the 718B job as shipped; the same with 2, 5 and 10 times the micro-batches; with 2, 5 and 10 times the
// layers. Bound: 1 s and 500 MB on 2 cores for the shipped job; growth linear in (layers x micro-batches). Method:
// median of `repeats` runs in this process, wall clock; peak resident memory of a child per row.

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/job_request.h"
#include "integrations/formats/file.h"
#include "integrations/formats/program_file.h"
#include "planner/planner.h"

namespace tidemark {
namespace {

struct Row {
  double seconds = 0;
  double cpu_seconds = 0;
  double file_mb = 0;
  double peak_mb = 0;
  std::int64_t tasks = 0;
  std::int64_t residencies = 0;
  bool fits = false;
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

Row run_once(const std::string& model, const std::string& device, std::int32_t micro_batches, std::int32_t layers) {
  const double cpu = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  plan::PlanRequest request = bench::job_request(model, device);
  request.job.parallel.global_batch *= micro_batches;
  if (layers > 1) {
    multiply_layers(request.job, layers);
    // Ten times the layers do not fit any budget of the real device: memory grows with them, so that the decision stays
    // as tight.
    request.budget_bytes = request.machine.visible_bytes * layers;
    request.host_budget_bytes = request.machine.host_bytes_per_device * layers;
  }
  Result<plan::PlanOutcome> outcome = plan::plan_step(request);
  if (!outcome) {
    fmt::print(stderr, "{}\n", outcome.error().message);
    std::exit(3);
  }
  const std::string file = formats::write_plan_file(request, outcome.value());
  const std::string path = fmt::format("/tmp/tidemark_plan_bench.{}.json", getpid());
  if (Status s = formats::write_file(path, file); !s) std::exit(3);
  Row row{.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
  unlink(path.c_str());
  row.cpu_seconds = cpu_seconds() - cpu;
  row.file_mb = static_cast<double>(file.size()) * 1e-6;
  row.fits = outcome.value().fits();
  for (const plan::RankPlan& r : outcome.value().ranks) {
    row.tasks += static_cast<std::int64_t>(r.program.schedule.tasks.size());
    row.residencies += static_cast<std::int64_t>(r.program.schedule.residencies.size());
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  row.peak_mb = static_cast<double>(usage.ru_maxrss) * 1024e-6;
  return row;
}

/// A fresh process per run, so that peak memory and first-touch costs are those of a user's run.
Row run_in_child(const std::string& model, const std::string& device, std::int32_t micro_batches, std::int32_t layers) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(3);
  const pid_t child = fork();
  if (child == 0) {
    const Row row = run_once(model, device, micro_batches, layers);
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

void report(const char* what, const std::string& model, const std::string& device, std::int32_t micro_batches,
            std::int32_t layers, int repeats, double& base_ns_per_task) {
  std::vector<Row> rows;
  for (int i = 0; i < repeats; ++i) rows.push_back(run_in_child(model, device, micro_batches, layers));
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.seconds < b.seconds; });
  const Row& r = rows[rows.size() / 2];
  const double ns_per_task = 1e9 * r.seconds / static_cast<double>(r.tasks);
  if (base_ns_per_task <= 0) base_ns_per_task = ns_per_task;
  fmt::print("{:24} {:>9} {:>11} {:>8.3f} {:>8.3f} {:>9.1f} {:>9.1f} {:>9.0f} {:>7.2f}x {:>5}\n", what, r.tasks,
             r.residencies, r.seconds, r.cpu_seconds, r.peak_mb, r.file_mb, ns_per_task, ns_per_task / base_ns_per_task,
             r.fits ? "yes" : "no");
  std::fflush(stdout);
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  const std::string root = TIDEMARK_SOURCE_DIR;
  const std::string model = root + "/models/pangu-ultra-moe-718b.yaml", device = root + "/devices/ascend-910b-64g.yaml";
  fmt::print("{:24} {:>9} {:>11} {:>8} {:>8} {:>9} {:>9} {:>9} {:>8} {:>5}\n", "job", "tasks", "residencies", "wall s",
             "cpu s", "peak MB", "file MB", "ns/task", "growth", "fits");
  double base = 0;
  tidemark::report("718B as shipped", model, device, 1, 1, repeats, base);
  for (const int factor : {2, 5, 10})
    tidemark::report(fmt::format("micro-batches x {}", factor).c_str(), model, device, factor, 1, 1, base);
  for (const int factor : {2, 5, 10})
    tidemark::report(fmt::format("layers x {}", factor).c_str(), model, device, 1, factor, 1, base);
  fmt::print(
      "bound for the first row: 1 s wall, 500 MB; growth is time per task against the first row (1.00x: linear)\n");
  return 0;
}
