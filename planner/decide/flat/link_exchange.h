#pragma once
// Local search on what a schedule with a link comes to once it is carried out, waits and all: a swap in place of a
// recomputation, the reverse, or one swap more and the recomputations less that it makes room for. Each try is timed
// for real, so there are few of them; a search that knows a swap by a price (link_schedules.h) says where to set out
// from.

#include <cstdint>
#include <functional>

#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/state.h"

namespace tidemark::decide::flat {

struct LinkExchange {
  Bytes budget = 0;
  int tries = 0;  ///< at most
  /// What a schedule adds, with waits, so no less than State::added_cost(); negative: it cannot be carried out within
  /// the budget.
  std::function<std::int64_t(const State&)> cost_of;
  std::function<bool()> should_stop;
};

/// The best it comes to. `problem`: without windows; `cost`: of `start`, which fits.
[[nodiscard]] Solution exchange_swaps(const Problem& problem, const LinkExchange& how, Solution start,
                                      std::int64_t cost);

}  // namespace tidemark::decide::flat
