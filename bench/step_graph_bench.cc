// Question: how well and how fast are steps without a simple shape planned (`plan --graph`): layers of random ops, each
// of which reads up to six storages of the layer before and now and then of any earlier one, and random training steps,
// whose way back reads what the way forward made; with recomputes alone, and with swaps for two storages of three? And
// what does a search for one budget come to, as `plan --graph` makes it, in what time, there and on layers that repeat?
// Workloads: 1,000 ops, about 6,000 edges, quick and with the usual effort; 100,000 ops with the usual effort; layers
// that repeat, 1,000 to 8,000 ops.
// Bound: the proven one. Goal: 1 s on two cores for the quick answer, 30 s for the usual one, within a few percent of
// each other; a minute and 2 GB for 100,000 ops; 2 s for one budget of 4,000 ops. Method: one run, by the clock and
// processor time, of all budgets of a step together; and one of each budget by itself. `step_graph_bench SHAPE`: one
// shape only.

#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <string>
#include <vector>

#include "planner/decide/flat/plan.h"
#include "tests/planner/decide/flat/random_steps.h"

namespace tidemark {
namespace {

struct Used {
  double cpu_seconds = 0;
  double peak_mb = 0;
};

Used used() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {
      .cpu_seconds = static_cast<double>(usage.ru_utime.tv_sec) + 1e-6 * static_cast<double>(usage.ru_utime.tv_usec),
      .peak_mb = static_cast<double>(usage.ru_maxrss) / 1024};
}

enum class Shape : std::uint8_t { layered, layered_swapped, training, repeated, repeated_swapped };
constexpr const char* kNames[] = {"layered", "layered-swapped", "training", "repeated", "repeated-swapped"};

testing::ReferenceStep step_of(Shape shape, std::int32_t ops, std::int32_t wide) {
  if (shape == Shape::repeated || shape == Shape::repeated_swapped)
    return testing::repeated_layers(7, ops / 2 / wide, wide, shape == Shape::repeated_swapped);
  if (shape == Shape::training)
    return testing::training_step(7, {.layers = ops / 2 / wide, .wide = wide, .degree = 4, .skips = 8, .most = 99});
  return testing::layered_step(
      7, {.layers = ops / wide, .wide = wide, .degree = 6, .most = 99, .swaps = shape == Shape::layered_swapped});
}

struct Answers {
  std::vector<decide::flat::StepPlan> plans;
  double seconds = 0, cpu_seconds = 0;
};

/// The budget by itself.
Answers aimed_at(const decide::flat::Problem& problem, Bytes percent) {
  const auto begin = std::chrono::steady_clock::now();
  const double before = used().cpu_seconds;
  const Bytes keep = decide::flat::carry_out(problem, decide::flat::keep_all_order(problem)).peak_bytes;
  Answers answers;
  answers.plans.push_back(decide::flat::plan_step_within(problem, keep * percent / 100, {.aimed = true}));
  answers.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  answers.cpu_seconds = used().cpu_seconds - before;
  return answers;
}

Answers answers_of(const decide::flat::Problem& problem, double effort, const std::vector<Bytes>& percents) {
  const auto begin = std::chrono::steady_clock::now();
  const double before = used().cpu_seconds;
  const Bytes keep = decide::flat::carry_out(problem, decide::flat::keep_all_order(problem)).peak_bytes;
  decide::flat::StepPlanner planner(problem, {.effort = effort});
  Answers answers;
  for (const Bytes percent : percents) answers.plans.push_back(planner.within(keep * percent / 100));
  answers.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  answers.cpu_seconds = used().cpu_seconds - before;
  return answers;
}

std::string cost_of(const decide::flat::StepPlan& plan) {
  if (plan.fits()) return fmt::format("+{:.2f} %", plan.percent(plan.outcome.added_cost));
  return fmt::format("none<{:.0f} %", 100 * static_cast<double>(plan.smallest_known_peak) /
                                          static_cast<double>(plan.keep_all_peak_bytes));
}

std::string time_of(const Answers& answers) {
  return fmt::format("{:.2f}/{:.2f} s", answers.seconds, answers.cpu_seconds);
}

void print_rows(Shape shape, std::int32_t ops, std::int32_t wide, const std::vector<double>& efforts,
                const std::vector<Bytes>& percents) {
  const testing::ReferenceStep step = step_of(shape, ops, wide);
  const Graph graph = testing::graph_of(step);
  const Machine machine;  // all costs are given
  const decide::flat::Problem problem(graph, machine);
  std::size_t edges = 0;
  for (const testing::ReferenceStep::Op& op : step.ops) edges += op.reads.size();
  std::vector<Answers> answers;
  for (const double effort : efforts) answers.push_back(answers_of(problem, effort, percents));
  const Answers &quick = answers.front(), &best = answers.back();
  for (std::size_t i = 0; i < percents.size(); ++i) {
    const decide::flat::StepPlan& plan = best.plans[i];
    const std::string gap =
        plan.fits() ? fmt::format("{:.2f} %", plan.percent(plan.outcome.added_cost - plan.lower_bound_cost)) : "";
    const Answers aimed = aimed_at(problem, percents[i]);
    fmt::print(
        "{:>16}/{:<3} {:>7} {:>7} {:>5} % {:>11} {:>14} {:>11} {:>14} {:>11} {:>14} {:>8.2f} % {:>9} {:>6.0f} MB\n",
        kNames[static_cast<std::size_t>(shape)], wide, ops, edges, percents[i], cost_of(quick.plans[i]), time_of(quick),
        cost_of(plan), time_of(best), cost_of(aimed.plans.front()), time_of(aimed), plan.percent(plan.lower_bound_cost),
        gap, used().peak_mb);
  }
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  using tidemark::Shape;
  const std::string only = argc > 1 ? argv[1] : "";
  const auto print_rows = [&](Shape shape, std::int32_t ops, std::int32_t wide, const std::vector<double>& efforts,
                              const std::vector<tidemark::Bytes>& percents) {
    if (only.empty() || only == tidemark::kNames[static_cast<std::size_t>(shape)])
      tidemark::print_rows(shape, ops, wide, efforts, percents);
  };
  fmt::print("{:<20} {:>7} {:>7} {:>7} {:>11} {:>14} {:>11} {:>14} {:>11} {:>14} {:>10} {:>9} {:>9}\n", "shape/wide",
             "ops", "edges", "budget", "quick cost", "clock/cpu", "usual cost", "clock/cpu", "one budget", "clock/cpu",
             "bound", "gap", "memory");
  constexpr double kQuick = 0.005, kUsual = 1;
  for (const std::int32_t wide : {5, 10, 20, 40})
    print_rows(Shape::layered, 1000, wide, {kQuick, kUsual}, {90, 85, 80, 75});
  for (const std::int32_t wide : {5, 20})
    print_rows(Shape::layered_swapped, 1000, wide, {kQuick, kUsual}, {90, 80, 70, 60});
  for (const std::int32_t wide : {5, 20}) print_rows(Shape::training, 1000, wide, {kQuick, kUsual}, {90, 75, 60, 50});
  for (const Shape shape : {Shape::repeated, Shape::repeated_swapped})
    for (const std::int32_t ops : {1000, 2000, 4000, 8000}) print_rows(shape, ops, 20, {kQuick}, {80, 60, 40});
  print_rows(Shape::layered, 100'000, 20, {kUsual}, {95, 92, 91, 90});
  print_rows(Shape::layered_swapped, 100'000, 20, {kUsual}, {95, 90, 80});
  print_rows(Shape::training, 100'000, 20, {kUsual}, {90, 75, 50});
  return 0;
}
