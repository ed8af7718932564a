// Question: how well and how fast are steps without a simple shape planned (`plan --graph`): layers of random ops, each
// of which reads up to six storages of the layer before and now and then of any earlier one, and random training steps,
// whose way back reads what the way forward made?
// Workloads: 1,000 ops, about 6,000 edges, quick and long; 100,000 ops with the usual effort.
// Bound: the proven one. Goal: 1 s on two cores for the quick answer, 30 s for the long one, within a few percent of
// each other; a minute and 2 GB for 100,000 ops. Method: one run, processor time, of all budgets of a row's step
// together.

#include <fmt/format.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "planner/remat/plan.h"
#include "tests/remat/random_list.h"

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

OpList step_of(bool training, std::int32_t ops, std::int32_t wide) {
  if (training)
    return testing::training_list(7, {.layers = ops / 2 / wide, .wide = wide, .degree = 4, .skips = 8, .most = 99});
  return testing::layered_list(7, {.layers = ops / wide, .wide = wide, .degree = 6, .most = 99});
}

struct Answers {
  std::vector<remat::StepPlan> plans;
  double seconds = 0;
};

Answers answers_of(const OpList& list, double effort, const std::vector<Bytes>& percents) {
  const double before = used().cpu_seconds;
  const Bytes keep = replay_schedule(list, keep_all_schedule(list), {}).peak_bytes;
  remat::StepPlanner planner(list, {}, {.effort = effort});
  Answers answers;
  for (const Bytes percent : percents) answers.plans.push_back(planner.within(keep * percent / 100));
  answers.seconds = used().cpu_seconds - before;
  return answers;
}

std::string cost_of(const remat::StepPlan& plan) {
  if (plan.fits()) return fmt::format("+{:.2f} %", plan.percent(plan.replay.added_cost));
  return fmt::format("none<{:.0f} %", 100 * static_cast<double>(plan.smallest_known_peak) /
                                          static_cast<double>(plan.keep_all_peak_bytes));
}

void print_rows(bool training, std::int32_t ops, std::int32_t wide, const std::vector<double>& efforts,
                const std::vector<Bytes>& percents) {
  const OpList list = step_of(training, ops, wide);
  std::size_t edges = 0;
  for (const OpList::Op& op : list.ops) edges += op.reads.size();
  std::vector<Answers> answers;
  for (const double effort : efforts) answers.push_back(answers_of(list, effort, percents));
  const Answers &quick = answers.front(), &best = answers.back();
  for (std::size_t i = 0; i < percents.size(); ++i) {
    const remat::StepPlan& plan = best.plans[i];
    const std::string gap =
        plan.fits() ? fmt::format("{:.2f} %", plan.percent(plan.replay.added_cost - plan.lower_bound_cost)) : "";
    fmt::print("{:>8}/{:<3} {:>7} {:>7} {:>5} % {:>11} {:>7.2f} s {:>11} {:>7.2f} s {:>8.2f} % {:>9} {:>6.0f} MB\n",
               training ? "training" : "layered", wide, ops, edges, percents[i], cost_of(quick.plans[i]), quick.seconds,
               cost_of(plan), best.seconds, plan.percent(plan.lower_bound_cost), gap, used().peak_mb);
  }
}

}  // namespace
}  // namespace tidemark

int main() {
  fmt::print("{:<12} {:>7} {:>7} {:>7} {:>11} {:>9} {:>11} {:>9} {:>10} {:>9} {:>9}\n", "shape/wide", "ops", "edges",
             "budget", "quick cost", "cpu", "long cost", "cpu", "bound", "gap", "memory");
  constexpr double kQuick = 0.005, kLong = 0.5;
  for (const std::int32_t wide : {5, 10, 20, 40})
    tidemark::print_rows(false, 1000, wide, {kQuick, kLong}, {90, 85, 80, 75});
  for (const std::int32_t wide : {5, 20}) tidemark::print_rows(true, 1000, wide, {kQuick, kLong}, {90, 75, 60, 50});
  tidemark::print_rows(false, 100'000, 20, {1}, {95, 92, 91, 90});
  tidemark::print_rows(true, 100'000, 20, {1}, {90, 75, 50});
  return 0;
}
