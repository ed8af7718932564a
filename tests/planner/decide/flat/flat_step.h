#pragma once
// A reference step with what the search makes of it, and the judgement of an order: the planner carries it out as the
// reference replays it.

#include <gtest/gtest.h>

#include <utility>

#include "core/machine.h"
#include "core/schedule.h"
#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/run_order.h"
#include "tests/planner/decide/flat/reference_step.h"

namespace tidemark::testing {

/// The problem borrows from its neighbours, so all of it is where it was made.
struct FlatStep {
  explicit FlatStep(ReferenceStep of, decide::flat::RecomputeRules rules = {})
      : step(std::move(of)), graph(graph_of(step)), problem(graph, machine, rules, step.host_bytes) {}
  FlatStep(const FlatStep&) = delete;
  FlatStep& operator=(const FlatStep&) = delete;
  ~FlatStep() = default;

  ReferenceStep step;
  Graph graph;
  Machine machine;  ///< all costs are given
  decide::flat::Problem problem;
};

/// Empty where the scheduler refuses the order, which fails the test.
[[nodiscard]] Schedule scheduled(const FlatStep& flat, const decide::flat::RunOrder& order);

/// Scheduler, simulator and verifier against the reference: no fault, the same profile and cost, a valid schedule.
/// Where copies take time neither is above the reference, which lets every copy wait for more than the scheduler does.
void expect_carried_out(const FlatStep& flat, const decide::flat::RunOrder& order);

}  // namespace tidemark::testing
