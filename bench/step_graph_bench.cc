// Question: how well and how fast are steps without a shape planned (`plan --graph`): layers of random ops, each of
// which reads up to six storages of the layer before and now and then of any earlier one?
// Workloads: 1,000 ops in layers of 5 to 40 at 90 and 75 % of their peak, with little work; 100,000 ops with the usual.
// Bound: the proven one. Goal: 1 s for the former, a minute and 2 GB for the latter. Method: one run, processor time.

#include <fmt/format.h>
#include <sys/resource.h>

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

void print_row(std::int32_t ops, std::int32_t wide, double effort) {
  const OpList list = testing::layered_list(7, {.layers = ops / wide, .wide = wide, .degree = 6, .most = 99});
  const Bytes keep = replay_schedule(list, keep_all_schedule(list), {}).peak_bytes;
  const double before = used().cpu_seconds;
  remat::StepPlanner planner(list, {}, {.effort = effort});
  for (const Bytes percent : {90, 75}) {
    const remat::StepPlan plan = planner.within(keep * percent / 100);
    const std::string cost = plan.fits() ? fmt::format("+{:.2f} %", plan.percent(plan.replay.added_cost)) : "none";
    fmt::print("{:>7} {:>5} {:>6} {:>8} % {:>10} {:>8.2f} % {:>8.1f} % {:>8.2f} s {:>6.0f} MB\n", ops, wide, effort,
               percent, cost, plan.percent(plan.lower_bound_cost),
               100 * static_cast<double>(plan.smallest_known_peak) / static_cast<double>(keep),
               used().cpu_seconds - before, used().peak_mb);
  }
}

}  // namespace
}  // namespace tidemark

int main() {
  fmt::print("{:>7} {:>5} {:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9}\n", "ops", "wide", "effort", "budget", "added",
             "bound", "known", "cpu", "memory");
  for (const std::int32_t wide : {5, 10, 20, 40}) tidemark::print_row(1000, wide, 0.005);
  tidemark::print_row(100'000, 20, 1);
  return 0;
}
