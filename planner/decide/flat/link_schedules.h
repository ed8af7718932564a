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
#include "planner/decide/flat/state.h"

namespace tidemark::decide::flat {

struct LinkSchedule {
  Bytes peak_bytes = 0;
  std::int64_t added_cost = 0;  ///< with what ops wait for pages
  RunOrder schedule;
};

/// None of them is both lower and cheaper than another; ascending peaks, descending costs. REQUIRES:
/// problem.has_link.
[[nodiscard]] std::vector<LinkSchedule> find_link_schedules(const Problem& problem, const SearchLimits& limits);

/// The same for the budgets that are asked for, one after the other (aimed.h): every view is searched at the budget and
/// at peaks that leave its pages more room, and the cheapest are improved on what they really add (link_exchange.h).
/// What is known of earlier budgets serves again where it fits, without another search of the views.
class LinkSearch {
 public:
  /// The problem must outlive this. REQUIRES: problem.has_link.
  explicit LinkSearch(const Problem& problem) : problem_(problem) {}

  /// As find_link_schedules() has them; some may be above the budget. `work`: entries of profiles looked at, about.
  [[nodiscard]] std::vector<LinkSchedule> within(Bytes budget, double work, const SearchLimits& limits);

 private:
  struct Timed {
    Solution solution;
    LinkSchedule linked;
  };
  void search_views(Bytes budget, double work, const SearchLimits& limits);
  [[nodiscard]] std::vector<Timed> timed_known(Bytes budget) const;
  [[nodiscard]] std::vector<Timed> exchanged(std::vector<Timed> starts, Bytes budget, double work,
                                             const SearchLimits& limits) const;

  const Problem& problem_;
  std::vector<Solution> known_;
};

}  // namespace tidemark::decide::flat
