#pragma once
// How searches see a link: copies by a price and by the room they take while they are under way, as if each had the
// link to itself. A search is asked in several views, since what a copy costs depends on which others there are.

#include <vector>

#include "planner/decide/flat/problem.h"

namespace tidemark::decide::flat {

struct LinkView {
  double stretch = 0;  ///< of what copies take; 0: they take no time
  double price = 0;    ///< of time on the link, in costs of ops
};
/// Ops that stop for every copy; then copies beside them, from an idle link to one that is taken half of the time.
inline constexpr LinkView kLinkViews[] = {{.stretch = 0, .price = 1},
                                          {.stretch = 1, .price = 0.01},
                                          {.stretch = 1, .price = 0.2},
                                          {.stretch = 2, .price = 0.05}};

/// The problem with the times and costs of copies in that view; else it is the same. REQUIRES: problem.has_link.
[[nodiscard]] Problem as_seen(const Problem& problem, const LinkView& view);

/// What may be swapped: what host memory holds if nothing is recomputed, and whatever is recomputed; one where that is
/// the same.
[[nodiscard]] std::vector<Problem> offers_of(const Problem& problem);

}  // namespace tidemark::decide::flat
