#pragma once
// Plans of random captured steps, at budgets where something is given up.

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "planner/planner.h"
#include "tests/support/captured_steps.h"
#include "tests/support/sanitized.h"

namespace tidemark::testing {

/// A plan of a random step, at a random budget between the smallest that is known to do and 95 % of what keeping all
/// takes.
[[nodiscard]] inline plan::RankPlan random_captured_plan(std::mt19937& random, std::int32_t layers, std::int32_t parts,
                                                         Hears hears = Hears::everything) {
  plan::PlanRequest request = captured_request(captured_training(random, layers, parts, hears), Bytes{1} << 50);
  request.machine.host_bytes_per_device = request.machine.host_bytes_per_node = kGiB;
  request.step->effort = 0.0005;
  const Bytes keep_all = plan::plan_step(request).value().ranks.front().figures.peak_bytes;
  request.budget_bytes = keep_all * static_cast<Bytes>(55 + random() % 40) / 100;
  plan::PlanOutcome planned = plan::plan_step(request).value();
  while (!planned.fits()) {
    request.budget_bytes =
        std::max(*request.budget_bytes, planned.ranks.front().figures.smallest_budget_bytes) + keep_all / 50;
    planned = plan::plan_step(request).value();
  }
  return std::move(planned.ranks.front());
}

/// `count` of them in the development build, fewer where a sanitizer slows them down.
[[nodiscard]] inline std::vector<plan::RankPlan> random_captured_plans(unsigned seed, int count, std::int32_t parts = 1,
                                                                       Hears hears = Hears::everything) {
  std::mt19937 random(seed);
  std::vector<plan::RankPlan> plans;
  for (int i = 0; i < cases(count); ++i) plans.push_back(random_captured_plan(random, 3 + i % 5, parts, hears));
  return plans;
}

}  // namespace tidemark::testing
