#pragma once
// Schedules for every budget, from one search. What is found depends on the step and the work alone, never on a budget
// somebody asks for: so of two budgets answered from the same archive the lower one has no higher peak and no lower
// cost, by construction, and also where each is asked for in a call of its own.

#include <cstdint>
#include <functional>

#include "planner/decide/flat/improve.h"
#include "planner/decide/flat/problem.h"

namespace tidemark::decide::flat {

enum class StepRule : std::uint8_t {
  optimal,  ///< searched for
  greedy,   ///< what frees most bytes for its cost goes first (greedy.h)
};

struct SearchLimits {
  StepRule rule = StepRule::optimal;
  double effort = 1;                  ///< > 0
  bool first_look = false;            ///< only what a whole search begins with
  std::function<bool()> should_stop;  ///< called by several threads
  /// Share of the work done, in [0, 1], never less than before; called by several threads, one at a time.
  std::function<void(double share)> on_progress;
  /// Of searches for one budget: what the best known adds, now and then. From the calling thread.
  std::function<void(std::int64_t added_cost)> on_better;
};

/// Where a step of up to 5,000 ops has both pages and second runs, either alone is searched first, as it would be by
/// itself with the work that it gets here, so that both together are never worse. Longer ones are searched once.
[[nodiscard]] Archive find_schedules(const Problem& problem, const SearchLimits& limits);

}  // namespace tidemark::decide::flat
