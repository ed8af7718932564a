#pragma once
// Schedules of a step whose swaps go over a link beside its ops, for every budget.
//
// The search knows a swap by its cost and by the room it takes while it is copied, as if it had the link to itself; it
// is asked several times, with the link priced and stretched differently (link_views.h). Every schedule found is then
// timed for real, within its own peak and within more, and priced by the scheduler and the simulator, so that the
// answers are exact although the search is not. What may be swapped at all is chosen twice, so that host memory holds
// it if nothing is recomputed, and whatever is; a schedule that host memory does not hold after all is dropped, which
// happens in the first only. No budget is asked for: see search.h.

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/run_order.h"
#include "planner/decide/flat/search.h"

namespace tidemark::decide::flat {

struct LinkSchedule {
  Bytes peak_bytes = 0;
  std::int64_t added_cost = 0;  ///< with what ops wait for copies
  RunOrder schedule;
};

/// Bytes that a schedule copies in, each time they are. Copies may cost nothing: fewer of them then still leave the
/// link, host memory and whoever shares them more.
[[nodiscard]] Bytes copied_bytes(const Problem& problem, const RunOrder& schedule);

/// Those that no other one makes useless, being lower and as cheap, or cheaper and as low: ascending peaks, descending
/// costs.
[[nodiscard]] std::vector<LinkSchedule> best_of(std::vector<LinkSchedule> all);

/// A schedule with its swaps timed anew so that it stays within `limit`, as far as it can. Nothing: host memory does
/// not hold what it swaps out.
[[nodiscard]] std::optional<LinkSchedule> timed_within(const Problem& problem, RunOrder schedule, Bytes limit);

/// As best_of() leaves them; at least one. REQUIRES: problem.has_link.
[[nodiscard]] std::vector<LinkSchedule> find_link_schedules(const Problem& problem, const SearchLimits& limits);

}  // namespace tidemark::decide::flat
