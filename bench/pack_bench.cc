// How close to the load do the packers come on pipeline-shaped items, and how long do they take?
// Prints a table: instance, packer, items, load, height, excess over the load, best of three times (of the processor,
// one thread). Modelled shapes, or the device residencies of each rank of the plan files named on the command line
// (`tidemark plan ... --out plan.json`). With `--draw-f SEED` before them every layer and micro-batch of a plan gets an
// expert load of its own, anywhere in [0.5, 1.5), and the storages routed there the bytes they take at it. With `--work
// N` the packers that have limits get N units in place of their default.

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "core/dynamic_region.h"
#include "integrations/formats/file.h"
#include "integrations/formats/program_file.h"
#include "planner/layout/packer.h"
#include "tests/support/pipeline_items.h"

namespace {

using namespace tidemark;

constexpr Bytes kAlignment = 512;

struct Options {
  std::optional<std::uint64_t> draw_f;
  layout::PackLimits limits;
};

double milliseconds_of(const layout::Packer& packer, const layout::PackProblem& problem,
                       const layout::PackLimits& limits, layout::PackAnswer& answer) {
  double best = 1e300;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const std::clock_t start = std::clock();
    answer = packer.pack(problem, limits);
    best = std::min(best, 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

void report(const std::string& instance, const std::vector<layout::PackItem>& items, const Options& options) {
  const layout::PackProblem problem{.items = items, .alignment = kAlignment};
  for (const layout::Packer& packer : layout::packers()) {
    layout::PackAnswer answer;
    const double ms = milliseconds_of(packer, problem, options.limits, answer);
    fmt::print("{:<26} {:<24} {:>7} {:>12} {:>12} {:>8.2f} {:>9.2f}\n", instance, packer.name, items.size(),
               format_bytes(answer.bound_bytes), format_bytes(answer.packing.height_bytes), answer.excess_percent(),
               ms);
  }
}

std::vector<Bytes> bytes_of(const Program& program, const Options& options) {
  std::vector<Bytes> bytes;
  for (const Residency& residency : program.schedule.residencies) bytes.push_back(residency.bytes);
  if (!options.draw_f) return bytes;
  std::mt19937_64 random(*options.draw_f + 1000 * static_cast<std::uint64_t>(program.schedule.rank));
  std::map<SiteId, double> load;
  for (const RoutedResidency& routed : program.routed) {
    const auto [at, fresh] = load.try_emplace(routed.site, 0.0);
    if (fresh) at->second = 0.5 + static_cast<double>(random() >> 11) * 0x1p-53;
    bytes[row(routed.residency)] = routed_bytes(routed, at->second);
  }
  return bytes;
}

int report_plan(const char* path, const Options& options) {
  const Result<std::string> text = formats::read_file(path);
  const Result<formats::PlanFile> file = text ? formats::read_plan_file(text.value(), path) : text.error();
  if (!file) {
    fmt::print(stderr, "{}\n", file.error().message);
    return 2;
  }
  for (const formats::PlanFile::Rank& rank : file.value().ranks) {
    const Schedule& schedule = rank.program.schedule;
    const std::vector<Bytes> bytes = bytes_of(rank.program, options);
    std::vector<layout::PackItem> items;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const Residency& r = schedule.residencies[i];
      const bool all_step = r.acquire == 0 && r.release >= 2 * schedule.compute_tasks - 1;
      if (r.space == MemorySpace::device && !all_step) items.push_back({r.acquire, r.release, bytes[i]});
    }
    report(fmt::format("{} rank {}", file.value().policy, schedule.rank), items, options);
  }
  return 0;
}

void print_head() {
  fmt::print("{:<26} {:<24} {:>7} {:>12} {:>12} {:>8} {:>9}\n", "instance", "packer", "items", "bound", "height",
             "excess %", "ms");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int first = 1;
  for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
    const std::string_view name = argv[first];
    if (name == "--draw-f") {
      options.draw_f = std::stoull(argv[first + 1]);
    } else if (name == "--work") {
      options.limits.work = std::stoll(argv[first + 1]);
    } else {
      fmt::print(stderr, "pack_bench [--draw-f SEED] [--work N] [PLAN.json ...]\n");
      return 2;
    }
  }
  print_head();
  for (int i = first; i < argc; ++i) {
    if (const int status = report_plan(argv[i], options); status != 0) return status;
  }
  if (argc > first) return 0;
  for (const bool cut : {false, true}) {
    for (const double spread : {0.0, 0.5}) {
      const std::string name = fmt::format("{} f±{:.1f}", cut ? "recipe" : "keep-all", spread);
      const PipelineItemsShape shape{.cut_gaps = cut, .load_spread = spread};
      PipelineItemsShape batches = shape;
      batches.micro_batches = 640;
      PipelineItemsShape layers = shape;
      layers.layers_per_chunk = 20;
      report("rank 2 " + name, pipeline_items(shape), options);
      report("x10 batches " + name, pipeline_items(batches), options);
      report("x10 layers " + name, pipeline_items(layers), options);
    }
  }
  return 0;
}
