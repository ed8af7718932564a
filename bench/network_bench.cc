// Question: how often does a search for one budget (`plan --graph --budget`) prove that nothing is cheaper, and in what
// processor time?
// Workload: VGG, U-Net, SegNet, FCN, ResNet-18 and small transformers, forward and backward (network_steps.h), at
// budgets from 90 % of their peak down to 50 %, or to the least peak that is not ruled out by what one op touches,
// where that is more: below, proofs say nothing of the method. Or some of these by name, or captured steps in files
// (`network_bench [NAME | FILE ...]`).
// Bound: the proven one. Goal: up to 60 ops in 2 s of the processor, up to 100 in 20 s, in nine of ten cases. Method:
// one run a budget, each by itself; processor time of all threads.

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "integrations/formats/import_captured_step.h"
#include "planner/decide/flat/bound.h"
#include "planner/decide/flat/plan.h"
#include "tests/planner/decide/flat/network_steps.h"

namespace tidemark {
namespace {

constexpr int kBudgets = 5;  // evenly, from the highest to the lowest
constexpr double kHighest = 0.9, kLowest = 0.5;
constexpr std::int32_t kFewOps = 60;  // the goals
constexpr double kFewSeconds = 2, kSeconds = 20;
constexpr const char* kWords[] = {"optimal", "within 1 %", "best found", "none"};

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + 1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
}

struct Tally {
  int optimal = 0, infeasible = 0, all = 0;  ///< proven to be so; budgets
  int in_time = 0;                           ///< of what is proven
};

/// Descending, none below the least that some op needs.
std::vector<Bytes> budgets_of(const decide::flat::Problem& problem, Bytes keep_all_peak) {
  const double keep = static_cast<double>(keep_all_peak);
  const double least = static_cast<double>(decide::flat::least_peak(problem).bytes);
  const double lowest = std::max(kLowest * keep, least), highest = std::max(kHighest * keep, least);
  std::vector<Bytes> budgets;
  for (int i = 0; i < kBudgets; ++i)
    budgets.push_back(static_cast<Bytes>(std::ceil(highest + (lowest - highest) * i / (kBudgets - 1))));
  return budgets;
}

Tally print_rows(const std::string& name, const Graph& graph) {
  const Machine machine;  // all costs are given
  const decide::flat::Problem problem(graph, machine);
  const Bytes keep = decide::flat::carry_out(problem, decide::flat::keep_all_order(problem)).peak_bytes;
  const double most_seconds = problem.op_count <= kFewOps ? kFewSeconds : kSeconds;
  Tally tally;
  for (const Bytes budget : budgets_of(problem, keep)) {
    const double before = processor_seconds();
    const decide::flat::StepPlan plan = decide::flat::plan_step_within(problem, budget, {.aimed = true});
    const double seconds = processor_seconds() - before;
    const bool is_optimal = plan.status == decide::flat::PlanStatus::optimal;
    ++tally.all;
    tally.optimal += is_optimal ? 1 : 0;
    tally.infeasible += plan.proven ? 1 : 0;
    tally.in_time += (is_optimal || plan.proven) && seconds <= most_seconds ? 1 : 0;
    fmt::print("{:>30} {:>5} {:>6.1f} {:>12} {:>7} {:>10} {:>10.4f} {:>8.2f}\n", name, problem.op_count,
               100 * static_cast<double>(budget) / static_cast<double>(keep),
               kWords[static_cast<std::size_t>(plan.status)], is_optimal || plan.proven ? "yes" : "no",
               plan.fits() ? fmt::format("{:.4f}", plan.percent(plan.outcome.added_cost)) : "-",
               plan.percent(plan.lower_bound_cost), seconds);
    std::fflush(stdout);
  }
  return tally;
}

int print_all(int count, char** words) {
  std::vector<testing::ReferenceStep> networks = testing::small_networks();
  std::ranges::move(testing::middle_networks(), std::back_inserter(networks));
  fmt::print("{:>30} {:>5} {:>6} {:>12} {:>7} {:>10} {:>10} {:>8}\n", "step", "ops", "peak %", "answer", "proven",
             "added %", "bound %", "cpu s");
  Tally sum;
  const auto add = [&](const Tally& tally) {
    sum.optimal += tally.optimal;
    sum.infeasible += tally.infeasible;
    sum.in_time += tally.in_time;
    sum.all += tally.all;
  };
  for (int i = 0; i < count; ++i) {
    const std::string name = words[i];
    if (const auto network = std::ranges::find(networks, name, &testing::ReferenceStep::name);
        network != networks.end()) {
      add(print_rows(name, testing::graph_of(*network)));
      continue;
    }
    std::ifstream file(name);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const Result<formats::CapturedStep> step = formats::read_captured_step(text, name);
    if (!step) {
      fmt::print(stderr, "{}\n", step.error().message);
      return 2;
    }
    add(print_rows(name.substr(name.rfind('/') + 1), step.value().graph));
  }
  if (count == 0)
    for (const testing::ReferenceStep& step : networks) add(print_rows(step.name, testing::graph_of(step)));
  fmt::print("{} budgets: {} proven optimal, {} proven infeasible, {} of these in the time that is the goal\n", sum.all,
             sum.optimal, sum.infeasible, sum.in_time);
  return 0;
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  return tidemark::print_all(argc - 1, argv + 1);
}
