// Question: how often does a search for one budget (`plan --graph --budget`) prove that nothing is cheaper, and in what
// processor time?
// Workload: VGG, U-Net, SegNet, FCN, ResNet-18 and small transformers, forward and backward (network_steps.h), at
// budgets from 90 % of their peak down to 50 %; or captured steps in files (`network_bench FILE ...`).
// Bound: the proven one. Goal: up to 60 ops in 2 s of the processor, up to 100 in 20 s, in nine of ten cases. Method:
// one run a budget, each by itself; processor time of all threads.

#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "integrations/formats/import_captured_step.h"
#include "planner/decide/flat/plan.h"
#include "tests/planner/decide/flat/network_steps.h"

namespace tidemark {
namespace {

constexpr Bytes kPercents[] = {90, 80, 70, 60, 50};
constexpr const char* kWords[] = {"optimal", "within 1 %", "best found", "none"};

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + 1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
}

struct Tally {
  int proven = 0, all = 0;
};

Tally print_rows(const std::string& name, const Graph& graph) {
  const Machine machine;  // all costs are given
  const decide::flat::Problem problem(graph, machine);
  const Bytes keep = decide::flat::carry_out(problem, decide::flat::keep_all_order(problem)).peak_bytes;
  Tally tally;
  for (const Bytes percent : kPercents) {
    const double before = processor_seconds();
    const decide::flat::StepPlan plan = decide::flat::plan_step_within(problem, keep * percent / 100, {.aimed = true});
    const bool is_proven = plan.status == decide::flat::PlanStatus::optimal || plan.proven;
    tally.proven += is_proven ? 1 : 0;
    ++tally.all;
    fmt::print("{:>30} {:>5} {:>3} % {:>12} {:>7} {:>10} {:>10.4f} {:>8.2f}\n", name, problem.op_count, percent,
               kWords[static_cast<std::size_t>(plan.status)], is_proven ? "yes" : "no",
               plan.fits() ? fmt::format("{:.4f}", plan.percent(plan.outcome.added_cost)) : "-",
               plan.percent(plan.lower_bound_cost), processor_seconds() - before);
    std::fflush(stdout);
  }
  return tally;
}

int print_all(int files, char** names) {
  fmt::print("{:>30} {:>5} {:>5} {:>12} {:>7} {:>10} {:>10} {:>8}\n", "step", "ops", "", "answer", "proven", "added %",
             "bound %", "cpu s");
  Tally sum;
  const auto add = [&](const Tally& tally) {
    sum.proven += tally.proven;
    sum.all += tally.all;
  };
  for (int i = 0; i < files; ++i) {
    std::ifstream file(names[i]);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const Result<formats::CapturedStep> step = formats::read_captured_step(text, names[i]);
    if (!step) {
      fmt::print(stderr, "{}\n", step.error().message);
      return 2;
    }
    const std::string name = names[i];
    add(print_rows(name.substr(name.rfind('/') + 1), step.value().graph));
  }
  if (files == 0)
    for (const auto& networks : {testing::small_networks(), testing::middle_networks()})
      for (const testing::ReferenceStep& step : networks) add(print_rows(step.name, testing::graph_of(step)));
  fmt::print("{} of {} proven\n", sum.proven, sum.all);
  return 0;
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  return tidemark::print_all(argc - 1, argv + 1);
}
