#pragma once
// Whole schedules to set out from, made on the way: one pass through the list with only the budget to live in. Where
// there is no room, the storage goes that frees most bytes for longest at the least cost, knowing all uses to come;
// what is needed and not there runs again just before, or is paged in: where pages take time, only what is
// copied out by then leaves so, and copying in begins early enough. Long lists see all that is in memory at every
// eviction, by an index; others a sample of it. Unlike cuts (seeds.h) it asks for no shape of the step.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/decide/flat/state.h"

namespace tidemark::decide::flat {

struct EvictionWay {
  double hold = 1;      ///< how much what must stay for a rerun takes off what leaves for it; >= 0
  double distance = 1;  ///< exponent of the time until the next use; >= 0
  double slack = 1;     ///< what an op counts in that time where everything would fit if it stayed; 0 to 1
  bool deep = false;    ///< what missing inputs in turn need is held as well; few see further than one step else
  const std::vector<double>* weight = nullptr;  ///< per storage: how willingly it goes; none: all alike
};

/// The peak may be above the budget: what a run touches stays, and so does what cannot come back.
/// Nothing: it would take more than `most_work`, or was told to stop. `work`: storages looked at are added.
[[nodiscard]] std::optional<Solution> evict_on_the_way(const Problem& problem, Bytes budget, const EvictionWay& way,
                                                       std::int64_t most_work, std::int64_t& work,
                                                       const std::function<bool()>& should_stop = {});

}  // namespace tidemark::decide::flat
