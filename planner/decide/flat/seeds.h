#pragma once
// Whole schedules to set out from. The part before the peak is cut into segments, at places chosen by dynamic
// programming so that what is held at them is least for a given size of the segments. What idles over the peak is
// dropped and comes back a segment at a time:
// - one level: what crosses a cut stays, the rest runs again once;
// - several levels: only a few cuts are held at a time, and segments run again as often as it takes (treeverse.h).

#include <functional>
#include <vector>

#include "planner/decide/flat/state.h"

namespace tidemark::decide::flat {

/// In any order; peaks and costs as they come. `most_reruns`: of all of them together, about. Told to stop,
/// it ends with those made by then.
[[nodiscard]] std::vector<Solution> checkpoint_seeds(const Problem& problem, std::int64_t most_reruns,
                                                     const std::function<bool()>& should_stop = {});

}  // namespace tidemark::decide::flat
