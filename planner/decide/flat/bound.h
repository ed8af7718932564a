#pragma once
// What no schedule can do better than, proven without a search.
//
// Bytes: at the first run of an op everything it touches is resident, and so is what is needed later and cannot be had
// back (changed in place, held, not to be run again, not to be paged).
//
// Cost: where everything is kept, a storage idles in gaps between touches. A schedule that fits lets enough of them
// leave at every op, and each that leaves costs a run of its writer, or a page, of its own. That is a covering problem
//   min sum c_g x_g,  sum over gaps g that span t of b_g x_g >= kept_t - B for every op t,
// of which a Lagrangian (prices of memory per op, raised by subgradient ascent) bounds the optimum from below. What a
// rerun needs besides (its inputs) is left out, which keeps the bound valid and makes it weaker; the second bound
// counts them, takes longer and is for steps of a few hundred ops.

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/decide/flat/problem.h"

namespace tidemark::decide::flat {

/// The smallest peak any schedule can have, and the op at which it must be that large.
struct LeastPeak {
  Bytes bytes = 0;
  std::int32_t op = 0;
};
[[nodiscard]] LeastPeak least_peak(const Problem& problem);

/// No schedule with a peak within the budget adds less, in cost quanta. O(iterations * (ops + gaps)). Told to stop, it
/// ends with what is proven so far.
[[nodiscard]] std::int64_t least_added_cost(const Problem& problem, Bytes budget,
                                            const std::function<bool()>& should_stop = {});

/// The same by a relaxation that counts what recomputations read (relaxation.h), of a step for which that takes no more
/// than a second or so; 0 of others. `target`: the cheapest schedule known.
[[nodiscard]] std::int64_t least_added_cost_with_inputs(const Problem& problem, Bytes budget, std::int64_t target,
                                                        const std::function<bool()>& should_stop = {});

}  // namespace tidemark::decide::flat
