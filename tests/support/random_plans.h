#pragma once
// Plans of random captured steps, at budgets where something is given up.

#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "planner/planner.h"
#include "tests/support/captured_steps.h"

namespace tidemark::testing {

/// A plan for a random share of what a random step takes; nothing where none fits.
[[nodiscard]] inline std::optional<plan::RankPlan> random_captured_plan(std::mt19937& random, std::int32_t layers,
                                                                        std::int32_t parts) {
  plan::PlanRequest request = captured_request(captured_training(random, layers, parts), Bytes{1} << 50);
  request.machine.host_bytes_per_device = request.machine.host_bytes_per_node = kGiB;
  request.step->effort = 0.0005;
  const Result<plan::PlanOutcome> kept = plan::plan_step(request);
  if (!kept) return std::nullopt;
  const Bytes peak = kept.value().ranks.front().figures.peak_bytes;
  request.budget_bytes = peak * static_cast<Bytes>(55 + random() % 40) / 100;
  Result<plan::PlanOutcome> planned = plan::plan_step(request);
  if (!planned || !planned.value().fits()) return std::nullopt;
  return std::move(planned.value().ranks.front());
}

[[nodiscard]] inline std::vector<plan::RankPlan> random_captured_plans(unsigned seed, int count,
                                                                       std::int32_t parts = 1) {
  std::mt19937 random(seed);
  std::vector<plan::RankPlan> plans;
  while (static_cast<int>(plans.size()) < count) {
    auto plan = random_captured_plan(random, 3 + static_cast<std::int32_t>(plans.size()) % 5, parts);
    if (plan) plans.push_back(std::move(*plan));
  }
  return plans;
}

}  // namespace tidemark::testing
