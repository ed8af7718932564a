#pragma once
// Finds choices that fit at the least added time. One decision core: every rule that searches is an instance of it.
//
// optimal: prices from the Lagrangian bound start a choice; overflowing positions are repaired with the moves of least
// reduced cost per byte; moves that turn out unneeded are undone, dearest first; every round is re-priced exactly by
// the Evaluator. Small problems are enumerated and proven. Deterministic: bounded by rounds, never by the clock.

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/decision/bound.h"
#include "planner/decision/evaluator.h"
#include "planner/decision/problem.h"

namespace tidemark {

struct SearchResult {
  Choice choice;
  Evaluation evaluation;
  bool fits = false;             ///< device and host budgets hold in `evaluation`
  double lower_bound_ns = 0;     ///< no choice that fits adds less
  bool proven_optimal = false;   ///< enumerated completely
  std::optional<Prices> prices;  ///< what proves the bound, where it was not enumerated
};

[[nodiscard]] SearchResult search_optimal(const DecisionProblem& problem, Bytes device_budget, Bytes host_budget);

/// Whole gap classes at a time, most bytes per added nanosecond first, until it fits.
[[nodiscard]] SearchResult search_greedy(const DecisionProblem& problem, Bytes device_budget, Bytes host_budget);

/// Every choice, priced exactly by depth-first search with pruning on cost. REQUIRES: count_choices is small.
[[nodiscard]] SearchResult search_exhaustively(const DecisionProblem& problem, Bytes device_budget, Bytes host_budget);
/// How many choices that is (saturating).
[[nodiscard]] double count_choices(const DecisionProblem& problem);

}  // namespace tidemark
