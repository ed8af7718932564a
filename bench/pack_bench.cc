// How close to the load do the packers come on pipeline-shaped items, and how long do they take?
// Prints a table: instance, packer, items, load, height, excess over the load, best of three times (of the processor,
// one thread). Modelled shapes, or the device residencies of each rank of the plan files named on the command line
// (`tidemark plan ... --out plan.json`).

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>

#include "integrations/formats/file.h"
#include "integrations/formats/program_file.h"
#include "planner/layout/packer.h"
#include "tests/support/pipeline_items.h"

namespace {

using namespace tidemark;

constexpr Bytes kAlignment = 512;

double milliseconds_of(const Packer& packer, const PackProblem& problem, PackAnswer& answer) {
  double best = 1e300;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const std::clock_t start = std::clock();
    answer = packer.pack(problem, {});
    best = std::min(best, 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

void report(const std::string& instance, const std::vector<PackItem>& items) {
  const PackProblem problem{.items = items, .alignment = kAlignment};
  for (const Packer& packer : packers()) {
    PackAnswer answer;
    const double ms = milliseconds_of(packer, problem, answer);
    fmt::print("{:<26} {:<24} {:>7} {:>12} {:>12} {:>8.2f} {:>9.2f}\n", instance, packer.name, items.size(),
               format_bytes(answer.bound_bytes), format_bytes(answer.packing.height_bytes), answer.excess_percent(),
               ms);
  }
}

int report_plan(const char* path) {
  const Result<std::string> text = read_file(path);
  const Result<PlanFile> file = text ? read_plan_file(text.value(), path) : text.error();
  if (!file) {
    fmt::print(stderr, "{}\n", file.error().message);
    return 2;
  }
  for (const PlanFile::Rank& rank : file.value().ranks) {
    const Schedule& schedule = rank.program.schedule;
    std::vector<PackItem> items;
    for (const Residency& r : schedule.residencies) {
      const bool all_step = r.acquire == 0 && r.release >= 2 * schedule.compute_tasks - 1;
      if (r.space == MemorySpace::device && !all_step) items.push_back({r.acquire, r.release, r.bytes});
    }
    report(fmt::format("{} rank {}", rank.plan.policy, schedule.rank), items);
  }
  return 0;
}

void print_head() {
  fmt::print("{:<26} {:<24} {:>7} {:>12} {:>12} {:>8} {:>9}\n", "instance", "packer", "items", "bound", "height",
             "excess %", "ms");
}

}  // namespace

int main(int argc, char** argv) {
  print_head();
  for (int i = 1; i < argc; ++i) {
    if (const int status = report_plan(argv[i]); status != 0) return status;
  }
  if (argc > 1) return 0;
  for (const bool cut : {false, true}) {
    for (const double spread : {0.0, 0.5}) {
      const std::string name = fmt::format("{} f±{:.1f}", cut ? "recipe" : "keep-all", spread);
      report("rank 2 " + name, pipeline_items({.cut_gaps = cut, .load_spread = spread}));
      report("x10 batches " + name, pipeline_items({.micro_batches = 640, .cut_gaps = cut, .load_spread = spread}));
      report("x10 layers " + name, pipeline_items({.layers_per_chunk = 20, .cut_gaps = cut, .load_spread = spread}));
    }
  }
  return 0;
}
