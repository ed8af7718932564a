#pragma once
// Schedules of a step whose pages go over a link beside its ops, for every budget.
//
// The search knows a page by its cost and by the room it takes while it is copied, as if it had the link to itself; it
// is asked several times, with the link priced and stretched differently, since what a page costs depends on which
// others there are. Every schedule found is then timed for real, in the room of its own peak and in more, and priced by
// the scheduler and the simulator, so that the answers are exact although the search is not. What may be paged at all
// is chosen twice, so that host memory holds it if nothing runs again, and whatever runs again; a schedule that host
// memory does not hold after all is dropped, which happens in the first only. No budget is asked for: see search.h.

#include <cstdint>
#include <vector>

#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/run_order.h"
#include "planner/decide/flat/search.h"

namespace tidemark::decide::flat {

struct LinkSchedule {
  Bytes peak_bytes = 0;
  std::int64_t added_cost = 0;  ///< with what ops wait for pages
  RunOrder schedule;
};

/// None of them is both lower and cheaper than another; ascending peaks, descending costs. REQUIRES:
/// problem.has_link.
[[nodiscard]] std::vector<LinkSchedule> find_link_schedules(const Problem& problem, const SearchLimits& limits);

/// The same for one budget (aimed.h): every view is searched at the budget and at peaks that leave its pages more room,
/// and then the one that came to most again. `work`: entries of profiles looked at, about. REQUIRES: problem.has_link.
[[nodiscard]] std::vector<LinkSchedule> find_link_schedules_within(const Problem& problem, Bytes budget, double work,
                                                                   const SearchLimits& limits);

}  // namespace tidemark::decide::flat
