#pragma once
// Search over ways to evict (eviction.h): how willingly each storage goes is perturbed, the pass made anew, and the
// change kept if the schedule got better, by simulated annealing. A pass is one sweep over the step, so steps of a
// few hundred ops see thousands of whole schedules a second. Deterministic: seeded, and bounded by counted work.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "planner/decide/flat/eviction.h"
#include "planner/decide/flat/improve.h"

namespace tidemark::decide::flat {

/// A way, and at which share of the budget it is used.
struct Attempt {
  EvictionWay way;             ///< its weights are those below
  std::vector<double> weight;  ///< per storage
  double share = 1;
};

struct CommonWays {
  bool close = false;     ///< one stayed within its work and came near the budget
  std::int64_t work = 0;  ///< of all
};
/// A few passes at ways that serve most steps; none may take more than `most_work`, nor goes on when told to stop.
CommonWays try_common_ways(const Problem& problem, Bytes budget, std::int64_t most_work, Archive& archive,
                           const std::function<bool()>& should_stop = {});

/// Sets out from the best of `starts`, as they do at this budget; none: from a common way. What it meets goes to the
/// archive; returns the best attempt, nothing if no pass ended.
std::optional<Attempt> search_ways(const Problem& problem, Bytes budget, std::span<const Attempt* const> starts,
                                   std::int64_t work, std::uint64_t seed, const std::function<bool()>& should_stop,
                                   Archive& archive);

}  // namespace tidemark::decide::flat
